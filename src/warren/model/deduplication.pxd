cimport cython
from libc.stdint cimport int64_t


cpdef bytes key_of_text(bytes text)
cdef bytes _bounded(bytes key)


cdef class Remembered:
    cdef public bytes key
    cdef public int64_t expires_at_ms
    cdef public int64_t pack
    cdef public bint is_in_window


cdef class Window:
    cdef int64_t _size_max
    cdef object _ttl_ms
    cdef object _on_gone
    cdef dict _entries
    cdef readonly object _order
    cdef bint _may_expire
    @cython.locals(entry=Remembered)
    cpdef Remembered find(self, bytes key, int64_t now_ms)
    @cython.locals(entry=Remembered)
    cpdef Remembered add(self, bytes key, int64_t now_ms, object ttl_ms=*)
    cpdef object restore(self, Remembered entry)
    cpdef object forget(self, Remembered entry)
    @cython.locals(entry=Remembered)
    cpdef list entries(self)
    @cython.locals(oldest=Remembered, is_full=bint)
    cpdef object make_room(self, int64_t now_ms)
    @cython.locals(first=Remembered)
    cdef object _tidy(self)


cdef bint _is_over(Remembered entry, int64_t now_ms) noexcept
