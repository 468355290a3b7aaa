cimport cython
from warren.wire._codec cimport OutputBuffer as OutputType, PropertyBlock as PropertiesType


cdef class Publisher:
    cdef list _methods
    cdef PropertiesType _properties
    cdef bytearray _body
    cdef bint _is_stamped
    cdef unsigned long long _producer

    @cython.locals(number=cython.ulonglong)
    cpdef burst(
        self, OutputType output, unsigned long long stamp_ns, unsigned long long sequence,
        unsigned long long count,
    )

    @cython.locals(place=Py_ssize_t)
    cdef _stamp(self, Py_ssize_t at, unsigned long long value)
