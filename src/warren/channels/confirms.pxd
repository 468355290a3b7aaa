from libc.stdint cimport uint16_t, uint64_t
from warren.model.counters cimport MessageCounters
from warren.wire._codec cimport OutputBuffer as OutputType


cdef class Confirms:
    cdef uint16_t _number
    cdef OutputType _output
    cdef object _on_due
    cdef MessageCounters _counters
    cdef bint _is_due
    cdef public bint is_closed
    cdef public uint64_t last_sequence
    cdef uint64_t _safe_up_to
    cdef uint64_t _told_up_to
    cdef public dict unconfirmed
    cdef list _safe
    cdef list _refused
    cdef readonly str origin
    cpdef uint64_t begin(self)
    cpdef object taken(self, uint64_t sequence)
    cpdef object wait_for(self, uint64_t sequence, Py_ssize_t queues)
    cpdef object wait_for_more(self, uint64_t sequence, Py_ssize_t queues)
    cpdef object confirmed(self, uint64_t sequence)
    cpdef object rejected(self, uint64_t sequence)
    cpdef object flush(self)
    cpdef object acknowledge_alone(self)
    cdef object _tell_settled(self)
    cdef object _become_due(self)
