from libc.stdint cimport uint64_t

from warren.queues.boundary cimport RetryingPublisher


cdef class Received(RetryingPublisher):
    cdef readonly object number
    cdef public Py_ssize_t unsafe
    cdef public bint is_awaited
    cdef object _on_safe
    cdef object _on_failed
    cpdef object confirmed(self, uint64_t sequence)
    cpdef object rejected(self, uint64_t sequence)
