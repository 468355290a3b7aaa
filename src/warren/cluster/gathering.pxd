cimport cython
from libc.stdint cimport int64_t
from warren.cluster.effects cimport Effects as EffectsType


cdef class Gathering:
    cdef EffectsType _effects
    cdef object _now_ms
    cdef int64_t _gathered_ms
    cdef set _crowd
    cdef int64_t _crowd_began_ms
    cdef int64_t _soon_ms
    cdef int64_t _alone
    cdef dict _soon
    cdef dict _later
    cdef dict _older
    cdef readonly dict _busy
    cdef bint _is_going
    cdef object _soon_timer
    cdef bint _is_later_set
    cpdef object flush_due(self, object replica, int urgency)
    cpdef object held(self)
    cpdef bint _must_wait(self) except -1
    cpdef bint _is_any_under_way(self) except -1
    cdef object _go_when_turn_ends(self)
    cdef object _count_crowd(self)
    cdef object _flush(self, object replica)
