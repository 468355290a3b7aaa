cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.queues.boundary cimport RetryingPublisher
from warren.wire._codec cimport Message as MessageType


cdef class Unconfirmed:
    cdef readonly object publisher
    cdef readonly uint64_t sequence
    cdef readonly uint64_t number
    cdef readonly MessageType message


cdef class Batch(RetryingPublisher):
    cdef public int64_t number
    cdef public list waiting
    cdef public Py_ssize_t size
    cdef public Py_ssize_t unsafe_here
    cdef public bint is_everywhere
    cdef object _on_complete
    cdef object _on_refused
    cpdef Py_ssize_t add(self, Unconfirmed unconfirmed) except -1
    cpdef object confirmed(self, uint64_t place)
    cpdef object rejected(self, uint64_t place)
    cpdef object held_everywhere(self)
    @cython.locals(unconfirmed=Unconfirmed)
    cpdef object answer(self)
