cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.model.deduplication cimport Remembered, Window
from warren.queues.id_keeping cimport IdKeepingBacking, record_of
from warren.queues.message_id cimport id_of
from warren.queues.queue cimport Queue
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class DeduplicatingQueue(Queue)


cdef class Fate:
    cdef public object origin
    cdef public Remembered entry
    cdef public int unsafe
    cdef DeduplicatingQueue _queue
    cdef object _publisher
    cdef uint64_t _sequence
    cdef list _others
    cpdef int wait(self, object publisher, uint64_t sequence) except -1
    cpdef object confirmed(self, uint64_t sequence)
    cpdef object rejected(self, uint64_t sequence)


cdef class DeduplicatingQueue(Queue):
    cdef public IdKeepingBacking keeper
    cdef public Py_ssize_t duplicates
    cdef public bint is_recalling
    cdef object _spawn
    cdef bint _is_windowed
    cdef bint _has_ttl
    cdef Window _window
    cdef dict _fates
    cdef dict _records
    cdef dict _named
    cdef bint _is_looking
    cdef list _held
    cpdef int publish(self, MessageType message, object publisher, uint64_t sequence) except -1
    @cython.locals(key=bytes, now_ms=int64_t, entry=Remembered, first=Fate, fate=Fate, outcome=int)
    cdef int _publish_once(
        self, MessageType message, object publisher, uint64_t sequence, bint redelivered,
    ) except -1
    cdef int _publish_any(
        self, MessageType message, object publisher, uint64_t sequence, bint redelivered,
    ) except -1
    @cython.locals(entry=Remembered, taken=uint64_t, place=tuple, outcome=int)
    cdef int _publish_first(
        self, Fate fate, MessageType message, uint64_t sequence, bint redelivered,
    ) except -1
    @cython.locals(entry=Remembered, is_alone=bint, record=QueuedType, outcome=int)
    cdef object _keep_id(self, Fate fate, MessageType message, tuple place)
    cdef object settled(self, Fate fate)
    cdef object refused(self, Fate fate)
