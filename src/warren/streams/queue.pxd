cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.queues.consumers cimport Consumer
from warren.queues.queue cimport Queue
from warren.streams.cursor cimport StreamCursor
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class StreamQueue(Queue):
    cdef public object log
    cdef public object workers
    cdef public dict cursors
    cdef public set seeking
    cdef public object groups
    cpdef int publish(self, MessageType message, object publisher, uint64_t sequence) except -1
    cpdef object consumer_ready(self, object consumer)
    cpdef object pump(self)
    @cython.locals(cursor=StreamCursor, message=MessageType, queued=QueuedType, end=int64_t)
    cpdef object _feed(self, Consumer consumer)
    cpdef object acked(self, list run)
    cpdef object requeued(self, list run)
    cpdef object rejected(self, list run)
