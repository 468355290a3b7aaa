cimport cython
from libc.stdint cimport uint64_t


cdef class _Reader:
    cdef bytes encoded
    cdef Py_ssize_t position
    cdef Py_ssize_t end
    # 64 bits wide, as it is shifted by up to 63: C would shift an int.
    @cython.locals(value=uint64_t, shift=int, octet=uint64_t)
    cdef uint64_t varint(self) except? 0xFFFFFFFFFFFFFFFF
    @cython.locals(left=uint64_t, start=Py_ssize_t)
    cdef bytes octets(self, uint64_t size)


@cython.locals(reader=_Reader, head=uint64_t, number=uint64_t, kind=int, found=list)
cpdef list fields(bytes encoded)
