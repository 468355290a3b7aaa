from libc.stdint cimport int64_t
from warren.flow.credit cimport Credit as CreditType


cdef class UnderWay:
    cdef readonly CreditType credit
    cdef readonly object in_sync
    cdef readonly dict held_by
    cdef object _batches
    cdef Py_ssize_t _owed_bytes
    cdef bint _has_room
    cdef bint _is_closed
    cpdef object held_everywhere(self)
    cpdef object add(self, object batch)
    cpdef bint held(self, str member, int64_t number) except -1
    cdef object _settle(self)
    cdef object _pay_back(self)
