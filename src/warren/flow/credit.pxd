cdef class Credit:
    cdef public Py_ssize_t bytes_max
    cdef public Py_ssize_t bytes_low
    cdef public Py_ssize_t bytes_used
    cdef public bint is_exhausted
    cdef public object stage
    cdef object _stage_without_debtor
    cdef public dict debtors
    cdef public object on_exhausted
    cdef public object on_available
    cpdef object charge(self, Py_ssize_t size_bytes, object debtor=*)
    cpdef object overdraw(self, object debtor)
    cpdef object release(self, Py_ssize_t size_bytes)
