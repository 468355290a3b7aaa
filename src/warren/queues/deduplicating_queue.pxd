cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.model.deduplication cimport Remembered, Window
from warren.queues.fate cimport Fate, new_fate
from warren.queues.id_keeping cimport IdKeepingBacking
from warren.queues.id_pack cimport IdPack
from warren.queues.message_id cimport id_of
from warren.queues.queue cimport Queue
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class DeduplicatingQueue(Queue):
    cdef public IdKeepingBacking keeper
    cdef public Py_ssize_t duplicates
    cdef public bint is_recalling
    cdef object _spawn
    cdef bint _is_windowed
    cdef bint _has_ttl
    cdef Window _window
    cdef dict _fates
    cdef dict _packs
    cdef IdPack _pack
    cdef int64_t _pack_number
    cdef bint _is_turn_open
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
    @cython.locals(keeper=IdKeepingBacking, taken=uint64_t, outcome=int, is_gone=bint)
    cdef int _publish_first(
        self, Fate fate, MessageType message, uint64_t sequence, bint redelivered,
    ) except -1
    @cython.locals(pack=IdPack)
    cdef object _keep_id(self, Fate fate, bint is_persistent)
    @cython.locals(pack=IdPack)
    cdef IdPack _new_pack(self, bint is_persistent)
    @cython.locals(pack=IdPack, is_alone=bint, outcome=int)
    cpdef object _write_pack(self)
