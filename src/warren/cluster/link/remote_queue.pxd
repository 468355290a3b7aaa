cimport cython
from libc.stdint cimport int64_t, uint16_t, uint64_t
from warren.cluster.link.unconfirmed cimport Unconfirmed
from warren.flow.credit cimport Credit
from warren.queues.boundary cimport AbstractQueue
from warren.queues.consumers cimport Consumer as ConsumerType
from warren.wire._codec cimport (
    Delivery as DeliveryType,
    Message as MessageType,
    OutputBuffer as OutputType,
    QueuedMessage as QueuedType,
)


cdef class RemoteQueue(AbstractQueue):
    cdef public object asker
    cdef public bint is_mirrored
    cdef public bint is_here
    cdef public uint16_t handle
    cdef public OutputType output
    cdef public str origin
    cdef public uint64_t number
    cdef public uint64_t doubtful
    cdef public uint64_t sent
    cdef public object unconfirmed
    cdef public dict consumers
    cdef dict _resuming
    cdef uint64_t _consumer_number
    cdef dict _names
    cdef dict _held
    cdef dict _passed_on
    cdef object _places
    cdef DeliveryType _fetched
    cdef bytes _route_key
    cdef bytes _publish_method
    cdef public int64_t epoch
    @cython.locals(credit=Credit)
    cpdef int publish(self, MessageType message, object publisher, uint64_t sequence) except -1
    cdef object _send(self, MessageType message)
    @cython.locals(entry=Unconfirmed, released=Py_ssize_t)
    cpdef object settled(self, uint64_t number, bint multiple, bint is_refused)
    @cython.locals(consumer=ConsumerType)
    cpdef object delivered(self, DeliveryType delivery)
    @cython.locals(passed_on=Py_ssize_t)
    cdef object _pass_on(self, ConsumerType consumer, DeliveryType delivery)
    @cython.locals(queued=QueuedType)
    cdef QueuedType _queued(self, DeliveryType delivery)
    cpdef object consumer_ready(self, object consumer)
    @cython.locals(queued=QueuedType, first=uint64_t, last=uint64_t)
    cpdef object acked(self, list run)
    cpdef object requeued(self, list run)
    cpdef object rejected(self, list run)
    cdef object _send_acked(self, uint64_t first, uint64_t last)
