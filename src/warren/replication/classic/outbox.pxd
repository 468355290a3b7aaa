cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.replication.classic.message_frames cimport MessageFrames
from warren.wire._codec cimport Message as MessageType


cdef class Outbox:
    cdef object _on_due
    cdef readonly bint is_urgent
    cdef readonly Py_ssize_t message_count
    cdef Py_ssize_t _removal_count
    cdef MessageFrames _frames
    cdef list _published
    cdef list _origins
    cdef list _expiries
    cdef bint _has_expiries
    cdef list _removed
    cdef public bint is_empty
    cdef readonly Py_ssize_t size
    cdef int _level
    cdef uint64_t _first
    cdef uint64_t _count
    cdef str _origin
    cdef uint64_t _origin_first
    cdef uint64_t _origin_count
    cdef int _gone_level
    cdef uint64_t _gone_first
    cdef uint64_t _gone_count
    cdef int64_t _gone_bytes
    cpdef object publish(
        self, MessageType message, int level, uint64_t sequence, int64_t expires_at_ms
    )
    cpdef object origin(self, str origin, uint64_t number)
    cpdef object remove(self, int level, uint64_t sequence, Py_ssize_t size)
    cpdef object close_removed(self)
    cdef object _close_published(self)
    cdef object _close_origin(self)
