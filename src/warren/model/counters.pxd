cimport cython
from libc.stdint cimport int64_t, uint64_t


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
    cdef double _idle_s
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


@cython.no_gc
cdef class QueueLengths:
    cdef public int64_t ready
    cdef public int64_t unacked
    cdef public double ready_rate
    cdef public double unacked_rate
    cpdef object sample(self, int64_t ready, int64_t unacked, double elapsed_s)


@cython.no_gc
cdef class TrafficCounters:
    cdef public uint64_t received
    cdef public uint64_t sent
    cdef public double receive_rate
    cdef public double send_rate
    cpdef object sample(self, uint64_t received, uint64_t sent, double elapsed_s)
