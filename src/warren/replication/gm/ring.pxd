from warren.replication.gm.neighbour_links cimport (
    LeftStream as LeftStreamType, RightStream as RightStreamType,
)
from warren.replication.gm.rounds cimport Rounds as RoundsType


cdef class Ring:
    cdef public object me
    cdef public list actions
    cdef readonly set timers
    cdef public tuple fence
    cdef readonly object view
    cdef readonly RoundsType rounds
    cdef public bint is_behind
    cdef readonly LeftStreamType _left
    cdef readonly RightStreamType _right
    cdef bint _is_cut_off
    cpdef object send(self, object to, object frame, tuple payloads=*)
    cpdef object set_timer(self, object timer, int delay_ms)
    cpdef object broadcast(self, object payload, Py_ssize_t size)
    cpdef object flush(self)
    cpdef object end_step(self)
    cpdef object activity(self, object frame, tuple payloads)
    cdef object _merge(self, object frame, tuple payloads)
    cdef object _send_activity(self, object news)
