cimport cython
from libc.stdint cimport int64_t
from warren.model.counters cimport MessageCounters, QueueLengths
from warren.queues.backing cimport BackingQueue
from warren.queues.queue cimport Queue
from warren.queues.waiting_times cimport WaitingTimes
from warren.storage.queue.paged_messages cimport PagedMessages


cdef class QueueCensus:
    cdef public Py_ssize_t queues
    cdef public Py_ssize_t consumers
    cdef public Py_ssize_t ready_consumers
    cdef public int64_t ready
    cdef public int64_t ready_bytes
    cdef public int64_t unacked
    cdef public int64_t unacked_bytes
    cdef public int64_t persistent
    cdef public int64_t persistent_bytes
    cdef public int64_t paged_out
    cdef public int64_t paged_out_bytes
    cdef public MessageCounters messages
    cdef public int64_t head_age_ms
    cdef public WaitingTimes waited
    @cython.locals(position=Py_ssize_t, queue=Queue)
    cpdef object count(self, list queues, Py_ssize_t start, Py_ssize_t end, int64_t now_ms)
    @cython.locals(backing=BackingQueue, waiting=WaitingTimes)
    cdef object _count(self, Queue queue, int64_t now_ms)
    @cython.locals(paged=PagedMessages)
    cdef object _count_messages(self, BackingQueue backing)
    cdef object _count_figures(self, object figures)


@cython.locals(
    position=Py_ssize_t, queue=Queue, backing=BackingQueue, lengths=QueueLengths,
)
cpdef object sample_queues(list queues, Py_ssize_t start, Py_ssize_t end, double elapsed_s)
