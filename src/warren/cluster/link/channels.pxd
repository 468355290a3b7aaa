cimport cython
from libc.stdint cimport uint16_t, uint64_t
from warren.cluster.link.publishes cimport LinkPublishes
from warren.cluster.link.remote_queue cimport RemoteQueue
from warren.queues.boundary cimport AbstractQueue
from warren.queues.delivery cimport Deliveries as DeliveriesType
from warren.wire._codec cimport (
    Ack as AckType,
    Delivery as DeliveryType,
    Message as MessageType,
)


cdef class LinkChannel:
    cdef public uint16_t number
    cdef public AbstractQueue queue
    cdef public LinkPublishes inbox
    cdef public DeliveriesType deliveries
    cdef public dict consumers
    cdef public bint is_closed
    @cython.locals(deliveries=DeliveriesType)
    cpdef object acked(self, uint64_t first, Py_ssize_t count)


cdef class ServedQueues:
    cdef public dict handles
    cdef object _on_method
    cdef object _on_message
    @cython.locals(handle=LinkChannel, message=MessageType, ack=AckType)
    cpdef object process(self, list events)


cdef class OpenedQueues:
    cdef public dict queues
    cdef object _on_method
    @cython.locals(queue=RemoteQueue, delivery=DeliveryType, ack=AckType)
    cpdef object process(self, list events)
