cimport cython
from libc.stdint cimport uint16_t, uint64_t
from warren.queues.boundary cimport AbstractQueue
from warren.wire._codec cimport Message as MessageType, OutputBuffer as OutputType


cdef class LinkPublishes:
    cdef public AbstractQueue queue
    cdef public str origin
    cdef public uint64_t received
    cdef public uint64_t doubtful
    cdef uint64_t _told
    cdef dict _pending
    cdef dict _refused
    cdef bint _is_due
    cdef object _on_due
    @cython.locals(number=uint64_t, outcome=int)
    cpdef object publish(self, MessageType message)
    cpdef object confirmed(self, uint64_t sequence)
    cpdef object rejected(self, uint64_t sequence)
    @cython.locals(settled=uint64_t)
    cpdef object flush(self, uint16_t handle, OutputType output)
    cdef object _tell_refused(self, uint16_t handle, OutputType output, uint64_t settled)
    cpdef object _become_due(self)
