from libc.stdint cimport uint64_t


cdef class Received:
    cdef readonly object number
    cdef public Py_ssize_t unsafe
    cdef object _on_safe
    cdef object _on_failed
    cpdef object confirmed(self, uint64_t sequence)
