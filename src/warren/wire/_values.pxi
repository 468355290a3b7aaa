"""What readers produce and queues hold (twin: `_values_py.py`)."""


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class PropertyBlock:
    def __init__(self, bytes raw not None):
        self.raw = raw
        parse_properties(self)


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Message:
    def __init__(
        self, bytes route_key not None, PropertyBlock properties not None, bytes body not None,
        int flags=0,
    ):
        self.route_key = route_key
        self.properties = properties
        self.body = body
        self.flags = flags


# Not known to the garbage collector: a million queued messages would cost it dear. So whoever sets
# `holder` clears it again when the delivery is settled.
@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class QueuedMessage:
    def __init__(self, Message message, uint64_t sequence, int64_t expires_at_ms):
        self.message = message
        self.sequence = sequence
        self.expires_at_ms = expires_at_ms
        self.store_file = -1


@cython.final
@cython.no_gc
cdef class MethodFrame:
    def __init__(self, int channel, bytes payload):
        self.channel = channel
        self.payload = payload


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Ack:
    def __init__(self, int channel, uint64_t delivery_tag, bint multiple):
        self.channel = channel
        self.delivery_tag = delivery_tag
        self.multiple = multiple


@cython.final
@cython.no_gc
cdef class Delivery:
    def __init__(
        self, int channel, bytes consumer_tag, uint64_t delivery_tag, bint redelivered,
        uint32_t messages_left, Message message,
    ):
        self.channel = channel
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.messages_left = messages_left
        self.message = message


@cython.final
@cython.no_gc
cdef class Fault:
    def __init__(self, int kind, int channel, int frame_type, bytes payload, uint64_t detail):
        self.kind = kind
        self.channel = channel
        self.frame_type = frame_type
        self.payload = payload
        self.detail = detail
