from libc.stdint cimport int64_t, uint64_t
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class BackingQueue:
    cdef public Py_ssize_t length
    cdef public Py_ssize_t ready_bytes
    cdef public Py_ssize_t unacked_count
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence,
    ) except -1
    cpdef int publish_delivered(
        self, QueuedType queued, object publisher, uint64_t sequence,
    ) except -1
    cpdef QueuedType fetch(self, bint ack_required)
    cpdef QueuedType head(self)
    cpdef list own(self, list run)
    cpdef object ack(self, list run)
    cpdef object requeue(self, list run)
    cpdef Py_ssize_t purge(self) except -1
    cpdef int level_number(self, MessageType message) except -1
    cpdef uint64_t next_sequence_of(self, MessageType message) except? 0
    cpdef object set_lazy(self, bint lazy)


cdef class Level(BackingQueue):
    cdef public uint64_t next_sequence
    cpdef uint64_t next_sequence_of(self, MessageType message) except? 0
