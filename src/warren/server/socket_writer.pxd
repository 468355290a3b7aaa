cimport cython


cpdef object write_now(object transport, int socket_fd, list pieces)

@cython.locals(sent=Py_ssize_t, position=Py_ssize_t)
cdef list _send(int socket_fd, list pieces)
