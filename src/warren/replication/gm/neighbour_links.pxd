from libc.stdint cimport int64_t


cdef class LeftStream:
    cdef readonly object sender
    cdef readonly int64_t seen
    cdef int64_t _stream
    cdef int64_t _awaited
    cpdef bint goes_on_with(self, object activity) except -1
    cpdef object advance(self)


cdef class RightStream:
    cdef readonly object to
    cdef readonly int64_t stream
    cdef public bint is_link_up
    cdef int64_t _number
    cpdef int64_t next_number(self) except -1


cdef class HeldFrames:
    cdef dict _frames
    cdef readonly Py_ssize_t _count
    cdef int64_t _bytes
    cdef dict _overflown
    cpdef bint is_held(self, str sender) except -1
