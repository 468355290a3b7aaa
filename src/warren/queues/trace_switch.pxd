cdef class TraceSwitch:
    cdef public bint is_on
    cdef public object tell
