cimport cython


cdef class Delivery:
    cdef public long group
    cdef public unsigned long long delivery_tag
    cdef public bint redelivered
    cdef public Py_ssize_t size
    cdef public bint is_stamped
    cdef public unsigned long long stamp_ns
    cdef public unsigned int producer
    cdef public unsigned long long sequence


@cython.locals(high=cython.ulonglong)
cpdef unsigned long long read32(bytes data, Py_ssize_t at)
cpdef unsigned long long read64(bytes data, Py_ssize_t at)


cdef class DeliveryReader:
    cdef public unsigned long long octets
    cdef public list deliveries
    cdef bytes _partial
    cdef Delivery _pending
    cdef Py_ssize_t _body_left

    @cython.locals(position=Py_ssize_t, length=Py_ssize_t, end=Py_ssize_t)
    cpdef list feed(self, bytes data)

    @cython.locals(kind=int, start=Py_ssize_t)
    cdef _frame(self, bytes data, Py_ssize_t position, Py_ssize_t end, list events)

    @cython.locals(
        start=Py_ssize_t, index=cython.uint, channel=int, tag_bytes=Py_ssize_t, group=long,
        at=Py_ssize_t,
    )
    cdef _method(self, bytes data, Py_ssize_t position, Py_ssize_t end, list events)

    @cython.locals(pending=Delivery, number=cython.ulonglong)
    cdef _body(self, bytes data, Py_ssize_t start, Py_ssize_t end)
    cdef _finish(self)
