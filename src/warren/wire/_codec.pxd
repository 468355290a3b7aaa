from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef class PropertyBlock:
    cdef readonly bytes raw
    cdef readonly uint16_t flags
    cdef readonly bint is_malformed
    cdef readonly bint persistent
    cdef readonly bint needs_vetting
    cdef readonly uint8_t priority
    cdef readonly int64_t expiration_ms


cdef class Message:
    cdef readonly bytes route_key
    cdef readonly PropertyBlock properties
    cdef readonly bytes body
    cdef public uint16_t channel
    cdef public uint8_t flags


cdef class QueuedMessage:
    cdef public Message message
    cdef public uint64_t sequence
    cdef public int64_t expires_at_ms
    cdef public bint redelivered
    cdef public uint32_t delivery_count
    cdef public object holder
    cdef public int64_t delivered_at_ms
    cdef public uint8_t state
    cdef public object publisher
    cdef public uint64_t publisher_sequence
    cdef public int32_t store_file
    cdef public int64_t store_offset
    cdef public uint32_t size


cdef class MethodFrame:
    cdef readonly uint16_t channel
    cdef readonly bytes payload


cdef class Ack:
    cdef readonly uint16_t channel
    cdef readonly uint64_t delivery_tag
    cdef readonly bint multiple


cdef class Delivery:
    cdef readonly uint16_t channel
    cdef readonly bytes consumer_tag
    cdef readonly uint64_t delivery_tag
    cdef readonly bint redelivered
    cdef readonly uint32_t messages_left
    cdef readonly Message message


cdef class Fault:
    cdef readonly int kind
    cdef readonly uint16_t channel
    cdef readonly uint8_t frame_type
    cdef readonly bytes payload
    cdef readonly uint64_t detail


cdef class Assembly:
    """The content one channel is in the middle of sending."""
    cdef int state
    cdef uint8_t flags
    cdef bytes route_key
    cdef PropertyBlock properties
    cdef Delivery delivery
    cdef bytes body
    cdef Py_ssize_t filled
    cdef Py_ssize_t size


cdef class Landing:
    cdef bytes body
    cdef Py_ssize_t start
    cdef Py_ssize_t size


cdef class FrameReader:
    cdef public uint32_t frame_max
    cdef public uint64_t message_size_max
    cdef public bint stepwise
    cdef public bint is_client
    cdef readonly uint64_t octets
    cdef readonly uint64_t frames
    cdef readonly bint has_stopped
    cdef dict _assemblies
    cdef Assembly _last_assembly
    cdef int _last_channel
    cdef bytes _last_route_key
    cdef PropertyBlock _last_properties
    cdef bytearray _partial
    cdef bytes _backlog
    cdef Assembly _streaming
    cdef uint16_t _stream_channel
    cdef Py_ssize_t _stream_left
    cdef Py_ssize_t _stream_start
    cpdef list feed(self, object data)
    cpdef object landing(self)
    cpdef list landed(self, Py_ssize_t count)
    cpdef object forget_channel(self, uint16_t channel)
    cdef Py_ssize_t _scan(self, const uint8_t* base, Py_ssize_t length, list events) except -1
    cdef bint _begin_stream(self, const uint8_t* frame, uint32_t size) except -1
    cdef Py_ssize_t _stream(self, const uint8_t* base, Py_ssize_t length, list events) except -1
    cdef Py_ssize_t _complete_partial(
        self, const uint8_t* base, Py_ssize_t length, list events
    ) except -1
    cdef int _frame(self, const uint8_t* frame, uint32_t size, list events) except -1
    cdef int _method(
        self, uint16_t channel, const uint8_t* payload, uint32_t size, list events
    ) except -1
    cdef int _publish(self, Assembly assembly, const uint8_t* payload, uint32_t size) except -1
    cdef int _delivery(
        self, Assembly assembly, uint16_t channel, const uint8_t* payload, uint32_t size
    ) except -1
    cdef bytes _route_key(self, const uint8_t* key, Py_ssize_t size)
    cdef int _header(
        self, uint16_t channel, const uint8_t* payload, uint32_t size, list events
    ) except -1
    cdef PropertyBlock _properties(self, const uint8_t* block, Py_ssize_t size)
    cdef int _body(
        self, uint16_t channel, const uint8_t* payload, uint32_t size, list events
    ) except -1
    cdef int _finish(self, Assembly assembly, uint16_t channel, list events) except -1
    cdef Assembly _assembly(self, uint16_t channel)
    cdef int _fault(
        self, int kind, const uint8_t* frame, uint32_t size, uint64_t detail, list events
    ) except -1


cdef class OutputBuffer:
    cdef public uint32_t frame_max
    cdef readonly Py_ssize_t size
    cdef readonly uint64_t octets
    cdef public bint is_congested
    cdef public list waiting
    cdef Py_ssize_t _congestion_bytes
    cdef object _on_first_write
    cdef object _on_congested
    cdef list _sealed
    cdef bytes _chunk
    cdef Py_ssize_t _used
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _chunk_bytes
    cdef Py_ssize_t _referenced
    cdef uint8_t* _reserve(self, Py_ssize_t count) except NULL
    cdef int _commit(self, Py_ssize_t count) except -1
    cdef int _seal(self) except -1
    cdef int _body_frames(self, uint16_t channel, bytes body) except -1
    cdef _confirm(self, uint32_t index, uint16_t channel, uint64_t delivery_tag, bint multiple)
    cdef bint _is_copied(self, Message message) noexcept
    cdef Py_ssize_t _content_bytes(self, Message message) noexcept
    cdef int _put_content(
        self, uint8_t* p, uint16_t channel, Message message, Py_ssize_t total
    ) except -1
    cpdef object raw(self, bytes data)
    cpdef object method(self, uint16_t channel, bytes payload)
    cpdef object heartbeat(self)
    cpdef object ack(self, uint16_t channel, uint64_t delivery_tag, bint multiple)
    cpdef object nack(self, uint16_t channel, uint64_t delivery_tag, bint multiple)
    cpdef object deliver(
        self, uint16_t channel, bytes consumer_tag, uint64_t delivery_tag, bint redelivered,
        Message message
    )
    cpdef object content(self, uint16_t channel, bytes method, Message message)
    cpdef list take(self)
