cimport cython
from warren.channels.channel cimport Channel
from warren.wire._codec cimport Ack as AckType, Message as MessageType


cdef class Intake:
    cdef public object session
    cdef public dict channels
    cdef public Channel publishing
    cdef public bint is_suspended
    cdef public bint is_closed
    cdef public Py_ssize_t position
    cpdef object settle(self)
    cpdef Py_ssize_t process(self, list events, Py_ssize_t start) except -1
    @cython.locals(
        position=Py_ssize_t, end=Py_ssize_t, channel=Channel, message=MessageType, ack=AckType,
    )
    cpdef Py_ssize_t run(self, list events, Py_ssize_t start) except -1
