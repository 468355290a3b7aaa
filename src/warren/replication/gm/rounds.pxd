cimport cython
from libc.stdint cimport int64_t
from warren.replication.gm.publications cimport (
    Origin as OriginType, Publication as PublicationType, Window as WindowType,
)

from warren.replication.gm.ring_view cimport RingView as RingViewType


cdef class News:
    cdef readonly tuple progress
    cdef readonly tuple payloads


cdef class Merged:
    cdef readonly list moved
    cdef readonly list deliveries


cdef class Rounds:
    cdef readonly str _me
    cdef RingViewType _view
    cdef int64_t _joined_view
    cdef readonly OriginType own
    cdef readonly dict _origins
    cdef public object _mine
    cdef public object aliases
    cdef public bint is_caught_up
    cdef readonly WindowType window
    cdef list _unsent
    cdef readonly int64_t unsent_bytes
    cdef int64_t _acked_sent
    cdef int64_t _marker
    cdef dict _owed_origins
    cdef int64_t _owed_count
    cdef int64_t _owed_bytes
    cpdef object set_view(self, object view)
    cpdef int64_t publish(self, object payload, int64_t size) except -1
    @cython.locals(
        origin=OriginType, acked=int64_t, first=int64_t, at=Py_ssize_t, count=Py_ssize_t,
        fresh=list, moved=list, deliveries=list, is_own=bint,
    )
    cpdef Merged merge(self, tuple progress, tuple payloads)
    cdef object _settle(self, object told, OriginType origin)
    @cython.locals(number=int64_t, publication=PublicationType)
    cpdef object _choose(self, list deliveries, str origin, int64_t first, list fresh)
    cpdef object release_window(self)
    cpdef bint has_unsent(self) except -1
    cpdef bint is_anything_owed(self) except -1
    cpdef bint is_much_owed(self) except -1
    @cython.locals(must_go=bint, publication=PublicationType, fresh=list)
    cpdef bint owe(self, str right, list moved) except -1
    cpdef News unsent_news(self, str right)
    @cython.locals(named=set, owed=list)
    cpdef News owed_news(self, str right, list moved)
    @cython.locals(
        origin=OriginType, progress=list, payloads=list, parts=list, publications=list,
        p=PublicationType,
    )
    cpdef News news(self, str right, object moved)
    cdef object _nothing_is_owed(self)
    cdef object _own_is_sent(self)
