cimport cython
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
    cpdef list frame_arrived(self, object frame, tuple payloads)
    cpdef list broadcast(self, object payload, Py_ssize_t size, bint is_last)
    cpdef bint has_unsent(self) except -1
    cpdef bint has_room(self) except -1
    @cython.locals(ring=RingType)
    cdef object _broadcast(self, object payload, Py_ssize_t size, bint is_last)
    cdef object _dispatch(self, object event)
    @cython.locals(ring=RingType)
    cdef object _end_step(self)
    cpdef object _frame_arrived(self, object frame, tuple payloads)
    cpdef object _take_or_reject(self, object frame, tuple payloads)
    cpdef object _take(self, object frame, tuple payloads)
