cimport cython
from libc.stdint cimport int64_t
from warren.replication.gm.publications cimport Origin as OriginType, Window as WindowType


cdef class Rounds:
    cdef readonly str _me
    cdef object _view
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
    @cython.locals(origin=OriginType, acked=int64_t, first=int64_t, at=Py_ssize_t)
    cpdef object merge(self, tuple progress, tuple payloads)
    cdef object _settle(self, object told, OriginType origin)
    cpdef object _choose(self, list deliveries, str origin, int64_t first, list fresh)
    cpdef object release_window(self)
    cpdef bint owe(self, str right, list moved) except -1
    cpdef object unsent_news(self, str right)
    cpdef object owed_news(self, str right, list moved)
    @cython.locals(origin=OriginType, progress=list, payloads=list)
    cpdef object news(self, str right, object moved)
    cdef object _nothing_is_owed(self)
    cdef object _own_is_sent(self)
