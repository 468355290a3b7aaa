cimport cython
from libc.stdint cimport int64_t
from warren.storage.bodies.store_files cimport StoreFile


cdef class FileTable:
    cdef public bint is_transient
    cdef public dict files
    cdef public object forwarding
    cdef public StoreFile current
    cdef public object spares
    cdef public dict in_making
    cdef public int64_t next_number
    cdef public list dead
    cdef public list dying
    cdef public list doomed
    cdef public bint wants_compaction
    cdef bint _has_fresh_deaths
    cdef bint _has_flying_deaths
    @cython.locals(file=StoreFile)
    cpdef object bury(self, int64_t number, int64_t offset, int64_t size)
