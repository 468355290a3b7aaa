cimport cython
from warren.replication.classic.received cimport Received as ReceivedType


cdef class Mirror:
    cdef readonly str member
    cdef readonly dict levels
    cdef public object boundary
    cdef public object upto
    cdef public object lacking
    cdef public dict numbers
    cdef public object number
    cdef public object held
    cdef public bint is_marked
    cdef object _make_level
    cdef object _on_held
    cdef readonly object _on_failed
    cdef public object _received
    @cython.locals(received=ReceivedType)
    cpdef object handle(self, object payload)
    cpdef object _go_on(self, object instruction, list messages, object received)
    cdef object _change(self, object changes, list messages, ReceivedType received)
    cdef object _remove(self, object run)
    cdef object _lacks_less(self, object count)
    cpdef object _level(self, object number)
    @cython.locals(first=ReceivedType, is_awaited=bint)
    cpdef object progress(self)
