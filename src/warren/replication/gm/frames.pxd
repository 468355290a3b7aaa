cimport cython


@cython.locals(head=bytes, length=Py_ssize_t)
cpdef list encode_frame(object frame, tuple payloads=*)
@cython.locals(length=Py_ssize_t, payloads=list)
cdef tuple _decode(object buffer, Py_ssize_t start)
@cython.locals(lengths=list)
cdef list _payload_lengths(object frame)
