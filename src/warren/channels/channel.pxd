cimport cython
from libc.stdint cimport uint16_t, uint64_t
from warren.channels.confirms cimport Confirms
from warren.channels.route cimport Route
from warren.model.counters cimport MessageCounters
from warren.queues.boundary cimport AbstractQueue
from warren.queues.delivery cimport Deliveries
from warren.routing.topology_version cimport TopologyVersion as VersionType
from warren.wire._codec cimport Message as MessageType, OutputBuffer as OutputType


cdef class Channel:
    cdef public object session
    cdef public uint16_t number
    cdef public bint is_closing
    cdef public OutputType output
    cdef public object vhost
    cdef public VersionType version
    cdef public Deliveries deliveries
    cdef public MessageCounters counters
    cdef public dict consumers
    cdef public Confirms confirms
    cdef public object transaction
    cdef public object reply_consumer
    cdef public object last_queue
    cdef public int prefetch
    cdef public dict routes
    cdef public uint64_t routes_version
    cdef public dict allowed
    cdef public Route run_route
    cdef public uint64_t run_length
    @cython.locals(route=Route, queue=AbstractQueue)
    cpdef object publish(self, MessageType message)
    cpdef object settle_run(self)
    @cython.locals(queue=AbstractQueue)
    cpdef object count(self, Route route, uint64_t publishes)
    @cython.locals(
        confirms=Confirms, queue=AbstractQueue, sequence=uint64_t,
        pending=int, is_rejected=bint, outcome=int,
    )
    cpdef object send(self, MessageType message, Route route)
    cpdef object forget_routes(self)
    cpdef object ack(self, uint64_t tag, bint multiple)
