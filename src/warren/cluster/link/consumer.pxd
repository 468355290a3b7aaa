from warren.queues.consumers cimport Consumer
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class LinkConsumer(Consumer):
    cdef public str node
    cdef public str client_tag
    cdef public Py_ssize_t window
    cpdef bint can_take(self)
    cpdef object deliver(self, QueuedType queued)
    cpdef object hand_over(self, MessageType message, bint redelivered)
