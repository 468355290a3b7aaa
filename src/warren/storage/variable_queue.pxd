cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.queues.backing cimport BackingQueue
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class VariableQueue(BackingQueue):
    cdef public object index
    cdef public bint is_durable
    cdef public Py_ssize_t keep
    cdef public object on_loaded
    cdef public object on_deleted
    cdef object _make_index
    cdef object _reader
    cdef public uint64_t next_sequence
    cdef public list returned
    cdef public object front
    cdef public object back
    cdef public uint64_t delta_start
    cdef public uint64_t delta_end
    cdef public Py_ssize_t delta_count
    cdef public Py_ssize_t delta_bytes
    cdef public bint is_loading
    cdef public uint64_t loaded_below
    cdef public uint64_t epoch
    @cython.locals(queued=QueuedType)
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence
    ) except -1
    @cython.locals(queued=QueuedType)
    cpdef QueuedType publish_delivered(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence
    )
    cdef int _store(self, QueuedType queued, object publisher, uint64_t sequence) except -1
    @cython.locals(queued=QueuedType)
    cpdef QueuedType fetch(self, bint ack_required)
    cdef QueuedType _take_head(self)


cdef bint _is_bodiless(QueuedType queued)
