cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.queues.backing cimport Level
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class MemoryBacking(Level):
    cdef object _fresh
    cdef list _returned
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence,
    ) except -1
    cpdef int publish_delivered(
        self, QueuedType queued, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(queued=QueuedType)
    cpdef QueuedType fetch(self, bint ack_required)
