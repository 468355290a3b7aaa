cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.flow.credit cimport Credit
from warren.queues.backing cimport BackingQueue
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class StreamBacking(BackingQueue):
    cdef public object flow
    cdef public Credit credit
    cdef public bint is_refusing
    cdef public list messages
    cdef public list publishers
    cdef public list sequences
    cdef public Py_ssize_t gathered_bytes
    cdef public list flight_messages
    cdef public list flight_publishers
    cdef public list flight_sequences
    cdef public Py_ssize_t flight_bytes
    cdef object _mark
    cdef public object on_deleted
    cdef public object look
    @cython.locals(size=Py_ssize_t)
    cpdef int publish(
        self, MessageType message, int64_t expires_at_ms, object publisher, uint64_t sequence
    ) except -1
    cpdef list take(self)
    @cython.locals(message=MessageType, size=Py_ssize_t, total=Py_ssize_t, count=Py_ssize_t)
    cdef Py_ssize_t _batch_length(self) except -1
    @cython.locals(publishers=list, sequences=list, position=Py_ssize_t)
    cpdef object committed(self)
    cpdef object land(self)
    cpdef QueuedType fetch(self, bint ack_required)
    cpdef QueuedType head(self)
    cpdef object ack(self, list run)
    cpdef object requeue(self, list run)
    cpdef Py_ssize_t purge(self) except -1
