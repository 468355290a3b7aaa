cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.queues.backing cimport Level
from warren.queues.id_records cimport is_id
from warren.queues.priority_backing cimport PriorityBacking
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class IdKeepingBacking(PriorityBacking):
    cdef public object on_left
    cdef public uint64_t taken
    cdef Level _ids
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence,
    ) except -1
    cpdef int publish_delivered(
        self, QueuedType queued, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(queued=QueuedType)
    cpdef QueuedType fetch(self, bint ack_required)
    cpdef QueuedType head(self)
    @cython.locals(queued=QueuedType)
    cpdef object ack(self, list run)
    cpdef object requeue(self, list run)
    cpdef int level_number(self, MessageType message) except -1
    cpdef Level level(self, int priority)
