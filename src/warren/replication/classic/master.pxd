cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.flow.credit cimport Credit as CreditType
from warren.replication.classic.batch cimport Batch as BatchType
from warren.replication.classic.outbox cimport Outbox as OutboxType
from warren.replication.classic.under_way cimport UnderWay as UnderWayType
from warren.queues.backing cimport BackingQueue
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class MasterBacking(BackingQueue):
    cdef public BackingQueue inner
    cdef public str origin
    cdef public object ring
    cdef public CreditType credit
    cdef public dict numbers
    cdef public uint64_t local_number
    cdef public int64_t number
    cdef int64_t _inherited
    cdef list _unsettled
    cdef object _mirror
    cdef public dict unacked
    cdef public OutboxType outbox
    cdef public BatchType batch
    cdef readonly UnderWayType under_way
    cdef dict _incomplete
    cdef public dict held_by
    cdef public dict coverages
    cdef public object departed
    cdef public bint is_frozen
    cdef public object on_frozen
    cdef public object on_thawed
    cdef public bint is_deposed
    cdef public bint is_promoted
    cdef public bint is_leaving
    cdef list _complete_batches
    cdef object _before_batch
    cdef bint _is_closing_batch
    @cython.locals(outcome=int, place=Py_ssize_t)
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(outcome=int, level=int, place=Py_ssize_t)
    cpdef int publish_delivered(
        self, QueuedType queued, object publisher, uint64_t sequence,
    ) except -1
    @cython.locals(size=Py_ssize_t, level=int)
    cdef int _tell(self, MessageType message, int64_t expires_at_ms) except -1
    cdef Py_ssize_t _wait(self, MessageType message, object publisher, uint64_t sequence) except -1
    @cython.locals(queued=QueuedType)
    cpdef QueuedType fetch(self, bint ack_required)
    @cython.locals(queued=QueuedType)
    cpdef list own(self, list run)
    @cython.locals(queued=QueuedType)
    cpdef object ack(self, list run)
    @cython.locals(queued=QueuedType)
    cpdef object requeue(self, list run)
    cdef object _gone(self, int level, QueuedType queued)
    cpdef int level_number(self, MessageType message) except -1
    cpdef uint64_t next_sequence_of(self, MessageType message) except? 0
    cpdef object flush(self)
    @cython.locals(batch=BatchType)
    cpdef object _broadcast(self, object payload)
    cpdef object held(self, str member, int64_t number)
    cpdef object _went_on(self)
    cdef object _count(self)
