from libc.stdint cimport int64_t


cdef class RingView:
    cdef readonly int64_t version
    cdef readonly dict members
    cdef readonly tuple _ring
    cdef readonly dict _heirs
    cdef readonly frozenset known
    cdef readonly bint is_alone
    cdef readonly bint has_dead
