cimport cython
from libc.stdint cimport uint64_t


@cython.no_gc
cdef class MessageCounters:
    cdef public uint64_t publish
    cdef public uint64_t publish_confirmed
    cdef public uint64_t confirm
    cdef public uint64_t return_unroutable
    cdef public uint64_t drop_unroutable
    cdef public uint64_t deliver
    cdef public uint64_t deliver_no_ack
    cdef public uint64_t get
    cdef public uint64_t get_no_ack
    cdef public uint64_t get_empty
    cdef public uint64_t redeliver
    cdef public uint64_t ack
    cdef public tuple rates
    cdef MessageCounters _sampled
    cdef uint64_t _sampled_events
    cpdef uint64_t events(self)
    cpdef object add(self, MessageCounters other)
    @cython.locals(events=uint64_t)
    cpdef object sample(self, double elapsed_s)


@cython.no_gc
cdef class ExchangeCounters:
    cdef public uint64_t publish_in
    cdef public uint64_t publish_out
    cdef public tuple rates
    cdef uint64_t _sampled_in
    cdef uint64_t _sampled_out
    @cython.locals(incoming=uint64_t, outgoing=uint64_t)
    cpdef object sample(self, double elapsed_s)


@cython.locals(position=Py_ssize_t, counters=MessageCounters)
cpdef object sample_messages(list several, Py_ssize_t start, Py_ssize_t end, double elapsed_s)
