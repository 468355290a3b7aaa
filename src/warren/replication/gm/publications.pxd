cimport cython
from libc.stdint cimport int64_t


cdef class Publication:
    cdef readonly int64_t view
    cdef readonly object payload


cdef class Origin:
    cdef public int64_t last_pub
    cdef public int64_t acked
    cdef public int64_t returned
    cdef readonly object pending
    cpdef object publish(self, object publication)
    @cython.locals(before=int64_t, skipped=int64_t, at=Py_ssize_t, views=tuple, fresh=list)
    cpdef list take(self, object progress, tuple payloads)
    cpdef object settle(self, int64_t up_to)


cdef class Window:
    cdef object _sizes
    cdef int64_t _bytes
    cdef readonly bint is_shut
    cpdef object add(self, int64_t size)
    cpdef object keep(self, Py_ssize_t count)
