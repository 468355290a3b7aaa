cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.queues.backing cimport BackingQueue, Level
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class PriorityBacking(BackingQueue):
    cdef int _max_priority
    cdef object _make_level
    cdef dict _levels
    cdef bint _is_lazy
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence,
    ) except -1
    cpdef int publish_delivered(
        self, QueuedType queued, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(level=Level, queued=QueuedType)
    cpdef QueuedType fetch(self, bint ack_required)
    @cython.locals(level=Level)
    cpdef QueuedType head(self)
    @cython.locals(queued=QueuedType)
    cpdef object ack(self, list run)
    @cython.locals(queued=QueuedType)
    cpdef object requeue(self, list run)
    cpdef int level_number(self, MessageType message) except -1
    cpdef uint64_t next_sequence_of(self, MessageType message) except? 0
    @cython.locals(level=Level)
    cdef Level _first(self)
    cdef Level _level_of(self, MessageType message)
    @cython.locals(level=Level)
    cpdef Level level(self, int priority)
