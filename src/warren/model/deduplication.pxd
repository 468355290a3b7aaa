cimport cython
from libc.stdint cimport int64_t


cpdef bytes key_of_text(bytes text)
cdef bytes _bounded(bytes key)


cdef class Remembered:
    cdef public bytes key
    cdef public int64_t expires_at_ms


cdef class Window:
    cdef object _size_max
    cdef object _ttl_ms
    cdef object _on_gone
    cdef object _entries
    cdef bint _may_expire
    @cython.locals(entry=Remembered)
    cpdef Remembered find(self, bytes key, int64_t now_ms)
    @cython.locals(entry=Remembered)
    cpdef Remembered add(self, bytes key, int64_t now_ms, object ttl_ms=*)
    cpdef object restore(self, Remembered entry)
    cpdef object forget(self, Remembered entry)
    @cython.locals(oldest=Remembered)
    cdef object _make_room(self, int64_t now_ms)


cdef bint _is_over(Remembered entry, int64_t now_ms) noexcept
