from warren.cluster.effects cimport Effects as EffectsType


cdef class HeldNews:
    cdef EffectsType _effects
    cdef dict _copies
    cdef bint _is_due
    cdef bint _is_timer_set
    cpdef object add(self, str node, object held, bint is_awaited)
