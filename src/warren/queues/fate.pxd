cimport cython
from libc.stdint cimport uint64_t
from warren.model.deduplication cimport Remembered, Window


@cython.no_gc
cdef class Fate:
    cdef public object origin
    cdef public Remembered entry
    cdef public int level
    cdef public uint64_t number
    cdef public int unsafe
    cdef public dict _fates
    cdef public Window _window
    cdef public object _publisher
    cdef public uint64_t _sequence
    cdef public list _others
    cpdef int wait(self, object publisher, uint64_t sequence) except -1
    cpdef object confirmed(self, uint64_t sequence)
    cpdef object rejected(self, uint64_t sequence)
    cpdef object settled(self)
    cpdef object refused(self)


@cython.locals(fate=Fate)
cpdef Fate new_fate(dict fates, Window window, Remembered entry, object origin)
