cimport cython
from libc.stdint cimport int64_t
from warren.wire._codec cimport Message as MessageType


cdef class StreamCursor:
    cdef public int64_t offset
    cdef public bint is_reading
    cdef public list messages
    cdef public int64_t first_offset
    cdef public object place
    cdef object _stretch
    cdef object _chunks
    @cython.locals(position=int64_t)
    cpdef MessageType peek(self)
