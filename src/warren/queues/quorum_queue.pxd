from libc.stdint cimport uint64_t
from warren.queues.queue cimport Queue
from warren.wire._codec cimport Message as MessageType


cdef class QuorumQueue(Queue):
    cdef object _transient
    cdef object _persistent
    cpdef int publish(self, MessageType message, object publisher, uint64_t sequence) except -1
    cdef MessageType _persisted(self, MessageType message)
