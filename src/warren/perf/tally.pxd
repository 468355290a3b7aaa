cimport cython
from warren.wire._codec cimport Delivery as DeliveryType


@cython.locals(high=cython.ulonglong)
cdef unsigned long long read32(bytes data, Py_ssize_t at)
cdef unsigned long long read64(bytes data, Py_ssize_t at)


cdef class Histogram:
    cdef public unsigned long long count
    cdef public unsigned long long highest
    cdef public list buckets

    @cython.locals(shift=Py_ssize_t, steps=cython.ulonglong, index=Py_ssize_t)
    cpdef add(self, unsigned long long value)


cdef class SequenceSet:
    cdef public bytearray bits
    cdef public unsigned long long size

    @cython.locals(at=Py_ssize_t, bit=int)
    cpdef bint add(self, unsigned long long number)


cdef class DeliveryTally:
    cdef public unsigned long long consumed
    cdef public unsigned long long fresh
    cdef public unsigned long long redelivered
    cdef public unsigned long long duplicates
    cdef public unsigned long long bytes
    cdef public unsigned long long first_ns
    cdef public unsigned long long last_ns
    cdef public unsigned long long gap_ns
    cdef public unsigned long long gap_at_ns
    cdef public Histogram latency
    cdef public dict sequences
    cdef long _group
    cdef long _producer
    cdef SequenceSet _current

    @cython.locals(
        delivery=DeliveryType, body=bytes, group=long, stamp_bytes=Py_ssize_t,
        stamp_ns=cython.ulonglong, believed_ns=cython.ulonglong,
    )
    cpdef record(self, list deliveries, unsigned long long now_ns, long groups)

    @cython.locals(producer=long)
    cdef bint _is_new(self, long group, unsigned long long number)
