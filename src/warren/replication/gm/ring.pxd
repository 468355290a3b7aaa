cimport cython
from warren.replication.gm.neighbour_links cimport (
    LeftStream as LeftStreamType, RightStream as RightStreamType,
)
from warren.replication.gm.ring_view cimport RingView as RingViewType
from warren.replication.gm.rounds cimport (
    Merged as MergedType, News as NewsType, Rounds as RoundsType,
)


cdef class Ring:
    cdef public object me
    cdef public list actions
    cdef readonly set timers
    cdef public tuple fence
    cdef readonly RingViewType view
    cdef readonly RoundsType rounds
    cdef public bint is_behind
    cdef readonly LeftStreamType _left
    cdef readonly RightStreamType _right
    cdef bint _is_cut_off
    cpdef object send(self, object to, object frame, tuple payloads=*)
    cpdef object set_timer(self, object timer, int delay_ms)
    cpdef object broadcast(self, object payload, Py_ssize_t size)
    cpdef bint has_news(self) except -1
    cpdef object flush(self)
    @cython.locals(rounds=RoundsType)
    cpdef object end_step(self)
    cpdef object activity(self, object frame, tuple payloads)
    @cython.locals(rounds=RoundsType, merged=MergedType)
    cdef object _merge(self, object frame, tuple payloads)
    @cython.locals(right=RightStreamType)
    cdef object _send_activity(self, NewsType news)
