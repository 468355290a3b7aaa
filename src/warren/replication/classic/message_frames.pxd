cimport cython
from warren.wire._codec cimport Message as MessageType, OutputBuffer as OutputType


cdef class MessageFrames:
    cdef OutputType _output
    cdef bytes _route_key
    cdef bytes _method
    cpdef Py_ssize_t add(self, MessageType message) except -1


@cython.locals(frames=MessageFrames)
cpdef bytes encode_messages(list messages)
@cython.locals(messages=list)
cpdef list decode_messages(object frames)
