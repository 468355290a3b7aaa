cimport cython
from libc.stdint cimport uint16_t, uint32_t
from warren.model.deduplication cimport key_of_text
from warren.wire._codec cimport Message as MessageType, PropertyBlock

cdef bytes _SIZES
cdef bytes _HEADER
cdef Py_ssize_t _HEADER_BYTES
cdef uint16_t _CONTENT_TYPE
cdef uint16_t _CONTENT_ENCODING
cdef uint16_t _HEADERS
cdef int _TEXT
cdef int _HAS_LENGTH
cdef int _UNKNOWN


@cython.locals(block=PropertyBlock, raw=bytes)
cpdef bytes id_of(MessageType message)
@cython.locals(at=Py_ssize_t, end=Py_ssize_t, name=Py_ssize_t, size=int)
cdef bytes _found(bytes raw, uint16_t flags)
@cython.locals(place=Py_ssize_t)
cdef bint _is_header(bytes raw, Py_ssize_t at) except -1
@cython.locals(high=uint32_t)
cdef Py_ssize_t _length(bytes raw, Py_ssize_t at) except -1
