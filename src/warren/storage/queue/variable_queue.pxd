cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from warren.storage.queue.message_tiers cimport is_bodiless, is_body_out
from warren.storage.queue.paged_messages cimport PagedMessages
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType

cdef uint8_t _VOLATILE
cdef uint8_t _STORED
cdef uint8_t _DEAD
cdef Py_ssize_t _OVERHEAD


cdef class VariableQueue(PagedMessages):
    cdef public object on_deleted
    cdef public int64_t begins_at
    cdef public object rates
    cdef public object discarding
    cdef public Py_ssize_t unacked_bodiless
    cdef public Py_ssize_t unacked_bodiless_bytes
    @cython.locals(queued=QueuedType)
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence
    ) except -1
    cpdef int publish_delivered(
        self, QueuedType queued, object publisher, uint64_t sequence
    ) except -1
    cdef void _count_unacked(self, QueuedType queued) noexcept
    cdef void _count_settled(self, QueuedType queued) noexcept
    cdef int _store(self, QueuedType queued, object publisher, uint64_t sequence) except -1
    @cython.locals(queued=QueuedType)
    cpdef QueuedType fetch(self, bint ack_required)
    @cython.locals(queued=QueuedType)
    cdef QueuedType _take_head(self)
    cdef object _look_ahead(self)
    @cython.locals(queued=QueuedType, later=Py_ssize_t)
    cdef list _bodiless_front(self, Py_ssize_t room)
    @cython.locals(queued=QueuedType, message=MessageType, place=Py_ssize_t)
    cpdef object _filled(self, list wanted, list messages, uint64_t epoch)
    @cython.locals(queued=QueuedType)
    cpdef object ack(self, list run)
    @cython.locals(queued=QueuedType)
    cpdef object requeue(self, list run)
