from warren.server.flush_scheduler cimport FlushScheduler as SchedulerType


cdef class Outgoing:
    cdef SchedulerType _turn
    cdef list _confirms_due
    cdef object _drained
    cdef int _fd
    cdef bint _is_waiting
    cdef list _withheld
    cdef public bint is_paused
    cdef public unsigned long writes
    cdef public object transport
    cdef readonly object output
    cpdef object confirms_due(self, object confirms)
    cpdef object flush(self)
    cpdef object freeze(self)
    cpdef object thaw(self)
    cdef object _write(self)
    cdef object _wake_consumers(self)
    cdef object _tell_drained(self)
