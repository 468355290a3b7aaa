cimport cython
from libc.stdint cimport uint64_t
from warren.model.counters cimport MessageCounters
from warren.queues.boundary cimport AbstractQueue, Holder
from warren.queues.delivery cimport Deliveries
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class Consumer(Holder):
    cdef public Deliveries deliveries
    cdef public str tag
    cdef public bytes tag_octets
    cdef public bint no_ack
    cdef public Py_ssize_t prefetch
    cdef public long priority
    cdef public bint exclusive
    cdef public bint is_cancelled
    cdef public object arguments
    cdef public object on_cancelled
    cpdef bint can_take(self)
    @cython.locals(deliveries=Deliveries)
    cpdef object park(self)
    cpdef object wake(self)
    @cython.locals(
        deliveries=Deliveries, tag=uint64_t, mine=MessageCounters, of_queue=MessageCounters
    )
    cpdef object deliver(self, QueuedType queued)
    @cython.locals(
        deliveries=Deliveries, tag=uint64_t, mine=MessageCounters, of_queue=MessageCounters
    )
    cpdef object hand_over(self, MessageType message, bint redelivered)


cdef class ConsumerRotation:
    cdef public Consumer sole
    cdef public Py_ssize_t count
    cdef public list priorities
    cdef public list groups
    cpdef object add(self, Consumer consumer)
    cpdef object discard(self, Consumer consumer)
    @cython.locals(consumer=Consumer)
    cpdef Consumer next_ready(self)
