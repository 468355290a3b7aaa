cimport cython
from libc.stdint cimport int64_t, uint16_t, uint64_t
from warren.model.counters cimport MessageCounters
from warren.queues.boundary cimport AbstractQueue as QueueType, Holder as HolderType
from warren.queues.trace_switch cimport TraceSwitch
from warren.wire._codec cimport OutputBuffer as OutputType, QueuedMessage as QueuedType


cdef class TurnClock:
    cdef public int64_t now_ms


cdef class Deliveries:
    cdef public uint16_t number
    cdef public OutputType output
    cdef public TurnClock clock
    cdef public MessageCounters counters
    cdef public uint64_t next_tag
    cdef public uint64_t settled_below
    cdef public dict unacked
    cdef public Py_ssize_t prefetch_limit
    cdef public Py_ssize_t prefetch_used
    cdef public list waiting
    cdef public TraceSwitch trace
    cdef public object channel
    cpdef bint has_room(self)
    @cython.locals(tag=uint64_t)
    cpdef uint64_t track(self, QueuedType queued, HolderType holder) except 0
    cpdef object ack(self, uint64_t tag, bint multiple)
    @cython.locals(unacked=dict, taken=list, candidate=uint64_t)
    cpdef list take(self, uint64_t tag, bint multiple)
    @cython.locals(taken=list, candidate=uint64_t)
    cpdef list take_run(self, uint64_t first, Py_ssize_t count)
    cpdef list take_tags(self, list tags)
    cpdef list take_all(self)
    @cython.locals(queue=QueueType, run=list)
    cpdef object settle_acked(self, list taken)
    @cython.locals(runs=list, run=list, queue=QueueType, queued=QueuedType, holder=HolderType)
    cpdef list release(self, list taken)
    cpdef object await_room(self, HolderType holder)
    @cython.locals(waiting=list, holder=HolderType, position=Py_ssize_t)
    cpdef object wake_waiting(self)
