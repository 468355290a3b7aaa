cimport cython
from libc.stdint cimport int64_t


cdef class Effects:
    cdef object _waker
    cdef list _actions
    cdef object _last_frames
    cdef int64_t _last_bytes
    cdef int64_t _last_token
    cdef bint _is_handling
    cdef bint _is_woken
    cdef list _due
    cdef dict _timers
    cdef dict _answers
    cpdef object add(self, object action)
    @cython.locals(size=int64_t)
    cpdef object send_frame(self, str node, list buffers)
    cpdef object call_later(self, int64_t delay_ms, object do)
    cdef int64_t _next_token(self) except -1
    cpdef object cancel(self, int64_t token)
    cpdef object at_end_of_turn(self, object do)
    cdef object _wake(self)
    cpdef object begin(self)
    cpdef object abandon(self)
    cpdef list end(self)
    cpdef object fire(self, int64_t token)
    cpdef object end_turn(self)
