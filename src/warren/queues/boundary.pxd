from libc.stdint cimport uint64_t
from warren.model.counters cimport MessageCounters
from warren.wire._codec cimport Message as MessageType


cdef class RetryingPublisher:
    cpdef object confirmed(self, uint64_t sequence)
    cpdef object rejected(self, uint64_t sequence)


cdef class AbstractQueue:
    cdef public object record
    cdef public MessageCounters counters
    cdef public object settings
    cdef public bint is_deleted
    cpdef int publish(self, MessageType message, object publisher, uint64_t sequence) except -1
    cpdef object acked(self, list run)
    cpdef object requeued(self, list run)
    cpdef object rejected(self, list run)
    cpdef object consumer_ready(self, object consumer)


cdef class Holder:
    cdef public AbstractQueue queue
    cdef public Py_ssize_t unacked
    cdef public bint is_parked
    cdef public bint awaits_room
    cdef public bint counts_for_prefetch
    cpdef object wake(self)
