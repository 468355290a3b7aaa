cdef class LoopClock:
    cdef object _loop
    cdef double _offset_ms
    cpdef object now_ms(self)
