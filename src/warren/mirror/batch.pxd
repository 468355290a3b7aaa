cimport cython


cdef class Batch:
    cdef public object number
    cdef public list waiting
    cdef public Py_ssize_t size
    cdef public Py_ssize_t unsafe_here
    cdef public bint is_everywhere
    cdef object _on_complete
    cpdef Py_ssize_t add(self, object unconfirmed) except -1
    cpdef object confirmed(self, object place)
