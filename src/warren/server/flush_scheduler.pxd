cdef class FlushScheduler:
    cdef readonly object tenure
    cdef readonly set open
    cdef object _loop
    cdef list _waiting
    cpdef object add(self, object outgoing)
    cpdef object flush(self)
