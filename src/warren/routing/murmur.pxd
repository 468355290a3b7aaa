cimport cython
from libc.stdint cimport uint32_t, uint64_t


@cython.locals(
    mixed=uint64_t, block=uint64_t, length=Py_ssize_t, whole=Py_ssize_t, place=Py_ssize_t
)
cpdef uint32_t murmur3_32(bytes data, uint32_t seed) except? 0
