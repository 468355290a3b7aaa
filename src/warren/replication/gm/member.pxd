from warren.replication.gm.neighbour_links cimport HeldFrames as HeldFramesType
from warren.replication.gm.ring cimport Ring as RingType


cdef class GroupMember:
    cdef readonly str uid
    cdef readonly bint is_stopped
    cdef readonly RingType _ring
    cdef readonly object _membership
    cdef readonly HeldFramesType _held
    cdef object _must_reach
    cpdef list handle(self, object event)
    cdef object _dispatch(self, object event)
    cdef object _end_step(self)
    cpdef object _frame_arrived(self, object frame, tuple payloads)
    cpdef object _take_or_reject(self, object frame, tuple payloads)
    cpdef object _take(self, object frame, tuple payloads)
