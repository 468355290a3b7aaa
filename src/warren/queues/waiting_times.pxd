cimport cython
from libc.stdint cimport int64_t, uint64_t


cdef class WaitingTimes:
    cdef public int64_t arrived
    cdef public list buckets
    cdef public uint64_t waited_ms
    cdef public uint64_t left
    cdef int64_t _last_ms
    cdef int64_t _next_mark_ms
    cdef int64_t _interval_ms
    cdef list _positions
    cdef list _times_ms
    cdef int64_t _left_at_ms
    cdef int64_t _wait_ms
    cdef Py_ssize_t _bucket
    cpdef object recall(self, int64_t head_ms)
    cpdef object arrive(self, int64_t now_ms, int64_t length)
    @cython.locals(wait_ms=int64_t)
    cpdef object leave(self, int64_t now_ms, int64_t length, uint64_t count)
    @cython.locals(position=Py_ssize_t)
    cpdef object add(self, WaitingTimes other)
    cpdef int64_t age_ms(self, int64_t now_ms, int64_t length) except -1
    @cython.locals(
        after=Py_ssize_t, start=int64_t, start_ms=int64_t, end=int64_t, end_ms=int64_t
    )
    cdef int64_t _time_of(self, int64_t position) except -1
