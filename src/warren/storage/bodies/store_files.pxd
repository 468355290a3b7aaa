cimport cython
from libc.stdint cimport int64_t


cdef class StoreFile:
    cdef public int64_t number
    cdef public int64_t salt
    cdef public int descriptor
    cdef public int64_t size
    cdef public int64_t references
    cdef public int64_t weight
    cdef public int64_t dead_weight
    cdef public object deaths
    cdef public bint is_sealed
    cdef public bint is_being_written
    cdef public Py_ssize_t users
    cdef public bint is_suspect
    cdef public bint is_unreadable
    cdef public int64_t patience
    cpdef object bury(self, int64_t offset, int64_t size)
    cpdef object add(self, int64_t references, int64_t body_bytes)
