cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.model.counters cimport QueueLengths
from warren.queues.backing cimport BackingQueue
from warren.queues.boundary cimport AbstractQueue
from warren.queues.consumers cimport Consumer, ConsumerRotation
from warren.queues.delivery cimport TurnClock
from warren.queues.length_limit cimport may_drop_at_once, overflows, would_overflow
from warren.queues.waiting_times cimport WaitingTimes
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef Py_ssize_t _DELIVERED_PER_TURN_MAX


cdef class Queue(AbstractQueue):
    cdef public BackingQueue backing
    cdef public object host
    cdef public ConsumerRotation rotation
    cdef public dict consumers
    cdef public Consumer exclusive_consumer
    cdef public Consumer active_consumer
    cdef public list waiting_for_load
    cdef public bint has_rules
    cdef public bint is_held
    cdef public Py_ssize_t returning
    cdef public bint is_pumping
    cdef public bint may_expire
    cdef public object expiry_timer
    cdef public int64_t expiry_due_ms
    cdef public object idle_expiry
    cdef public TurnClock turn_clock
    cdef public WaitingTimes waiting_times
    cdef public QueueLengths lengths
    @cython.locals(consumer=Consumer)
    cpdef int publish(self, MessageType message, object publisher, uint64_t sequence) except -1
    @cython.locals(outcome=int)
    cdef int _hand_to(
        self, Consumer consumer, QueuedType queued, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(consumer=Consumer, queued=QueuedType, outcome=int)
    cpdef int _publish_by_rules(
        self, MessageType message, object publisher, uint64_t sequence, bint redelivered,
    ) except -1
    @cython.locals(waiting=WaitingTimes)
    cdef int _keep(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(
        backing=BackingQueue, consumer=Consumer, queued=QueuedType, delivered=Py_ssize_t
    )
    cpdef object pump(self)
    cpdef WaitingTimes _begin_waiting(self)
    @cython.locals(waiting=WaitingTimes)
    cpdef object _count_waiting(self, Py_ssize_t left)
    cpdef object acked(self, list run)
