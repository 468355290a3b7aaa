cimport cython
from libc.stdint cimport int64_t
from warren.flow.credit cimport Credit as CreditType
from warren.replication.classic.batch cimport Batch as BatchType


cdef class UnderWay:
    cdef readonly CreditType credit
    cdef readonly object in_sync
    cdef tuple _members
    cdef readonly dict held_by
    cdef object _batches
    cdef Py_ssize_t _owed_bytes
    cdef bint _has_room
    cdef bint _is_closed
    cpdef object held_everywhere(self)
    @cython.locals(least=int64_t, number=int64_t)
    cdef int64_t _least_held(self) except -2
    cpdef object add(self, object batch)
    @cython.locals(oldest=BatchType)
    cpdef bint held(self, str member, int64_t number) except -1
    @cython.locals(everywhere=int64_t, batch=BatchType)
    cdef object _settle(self)
    cdef object _pay_back(self)
