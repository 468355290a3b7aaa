cimport cython
from libc.stdint cimport int64_t


cdef class Replica:
    cdef readonly object me
    cdef readonly str uid
    cdef public object record
    cdef readonly object revision
    cdef public object master
    cdef public object mirror
    cdef public bint is_stopped
    cdef object _host
    cdef public object _gm
    cdef readonly bint _is_proposing
    cdef set _links_down
    cdef set _begun
    cdef readonly dict _kept
    cdef object _told_epoch
    cdef readonly dict _admitting
    cdef bint _had_room
    cdef bint _is_flushing
    cdef dict _held_early
    cdef bint _is_blocked
    cdef object _hand_over
    cdef bint _was_in_sync
    cdef object _gave_up_at
    cpdef object frame_arrived(self, object frame, tuple payloads)
    cpdef object held(self, str member, int64_t epoch, int64_t number)
    cpdef object broadcast(self, object payload)
    cpdef object flush_due(self, object master, int urgency)
    cpdef object flush(self)
    cdef object _handle(self, object event)
    cdef object _do(self, list actions)
    @cython.locals(has_room=bint)
    cdef object _tell_room(self)
    cpdef object _admit(self)
    cpdef object _pursue_hand_over(self, object record)
