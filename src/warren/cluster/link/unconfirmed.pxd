from libc.stdint cimport uint64_t
from warren.wire._codec cimport Message as MessageType


cdef class Unconfirmed:
    cdef public uint64_t number
    cdef public object publisher
    cdef public uint64_t sequence
    cdef public MessageType message
