"""The wire kernel: frames to messages and messages to frames, at a few dozen nanoseconds each.

`_codec_py.py` is the same thing in plain Python, function for function, and the place to read what
this code means; a property test feeds both with the same bytes and compares. What is done here
only for speed:

* publishers repeat themselves, so the route key and the property block of a publish are compared
  with those of the one before and the same Python objects are used again;
* a body is copied once, straight from the read buffer into the `bytes` it lives in;
* deliveries are written into one chunk of memory that is handed to the transport as it is; bodies
  of `BODY_BY_REFERENCE_MIN` bytes or more are never copied, but sent from where they are.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** obj, Py_ssize_t size) except -1


cdef enum:
    FRAME_METHOD = 1
    FRAME_HEADER = 2
    FRAME_BODY = 3
    FRAME_HEARTBEAT = 8
    FRAME_END = 0xCE
    FRAME_HEADER_BYTES = 7
    FRAME_OVERHEAD_BYTES = 8

    # class id << 16 | method id
    BASIC_PUBLISH = 0x003C0028
    BASIC_DELIVER = 0x003C003C
    BASIC_ACK = 0x003C0050
    BASIC_NACK = 0x003C0078
    CLASS_BASIC = 60
    PUBLISH_BYTES_MIN = 9
    ACK_BYTES = 13
    CONTENT_HEADER_FIXED_BYTES = 12

    # What a channel must send next (twin: AssemblyState).
    EXPECT_METHOD = 0
    EXPECT_HEADER = 1
    EXPECT_BODY = 2
    OVERRUN = 3
    DISCARD = 4

    # Twin: fault_kinds.FaultKind.
    FAULT_FRAME_END = 1
    FAULT_FRAME_TOO_LARGE = 2
    FAULT_UNKNOWN_FRAME = 3
    FAULT_STRAY_FRAME = 4
    FAULT_EXPECTED_METHOD = 5
    FAULT_EXPECTED_HEADER = 6
    FAULT_WRONG_CLASS = 7
    FAULT_EXPECTED_BODY = 8
    FAULT_MALFORMED_PROPERTIES = 9
    FAULT_MESSAGE_TOO_LARGE = 10

    # Property flags.
    CONTENT_TYPE = 0x8000
    CONTENT_ENCODING = 0x4000
    HEADERS = 0x2000
    DELIVERY_MODE = 0x1000
    PRIORITY = 0x0800
    CORRELATION_ID = 0x0400
    REPLY_TO = 0x0200
    EXPIRATION = 0x0100
    MESSAGE_ID = 0x0080
    TIMESTAMP = 0x0040
    USER_ID = 0x0010
    CLUSTER_ID = 0x0004

    TABLE_DEPTH_MAX = 100  # twin: limits.TABLE_DEPTH_MAX
    # All ones: not a finite number, and Erlang (so RabbitMQ) has no other floats.
    FLOAT_EXPONENT = 0x7F80
    DOUBLE_EXPONENT = 0x7FF0
    EXPIRATION_DIGITS_MAX = 12
    DIGIT_ZERO = 48

    CHUNK_BYTES_MIN = 512
    CHUNK_BYTES_MAX = 262144
    BODY_BY_REFERENCE_MIN = 16384
    LANDING_BYTES_MIN = 16384

cdef const char* _DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
cdef enum:
    DIRECT_REPLY_TO_BYTES = 21
    EXPIRATION_NONE = -1
    EXPIRATION_ODD = -2

cdef int64_t EXPIRATION_MS_MAX = 315360000000


cdef inline uint16_t read16(const uint8_t* p) noexcept nogil:
    return <uint16_t>((p[0] << 8) | p[1])


cdef inline uint32_t read32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t read64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>read32(p) << 32) | read32(p + 4)


cdef inline uint8_t* put32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 24)
    p[1] = <uint8_t>(value >> 16)
    p[2] = <uint8_t>(value >> 8)
    p[3] = <uint8_t>value
    return p + 4


cdef inline uint8_t* put64(uint8_t* p, uint64_t value) noexcept nogil:
    return put32(put32(p, <uint32_t>(value >> 32)), <uint32_t>value)


cdef inline uint8_t* put_frame(
    uint8_t* p, uint8_t kind, uint16_t channel, uint32_t size
) noexcept nogil:
    p[0] = kind
    p[1] = <uint8_t>(channel >> 8)
    p[2] = <uint8_t>channel
    return put32(p + 3, size)


cdef inline uint8_t* put_bytes(uint8_t* p, bytes data):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    memcpy(p, PyBytes_AS_STRING(data), size)
    return p + size


cdef Py_ssize_t value_bytes(const uint8_t* p, Py_ssize_t left, int depth) noexcept nogil:
    """Bytes of one typed field value (type letter included), or -1 if it is malformed."""
    cdef Py_ssize_t size
    cdef uint8_t kind
    if left < 1:
        return -1
    kind = p[0]
    if kind == b'V':
        size = 0
    elif kind == b't' or kind == b'b' or kind == b'B':
        size = 1
    elif kind == b's' or kind == b'u':
        size = 2
    elif kind == b'I' or kind == b'i' or kind == b'f':
        size = 4
    elif kind == b'l' or kind == b'L' or kind == b'd' or kind == b'T':
        size = 8
    elif kind == b'D':
        size = 5
    elif kind == b'S' or kind == b'x' or kind == b'F' or kind == b'A':
        if left < 5:
            return -1
        size = 4 + <Py_ssize_t>read32(p + 1)
        if 1 + size > left:
            return -1
        if kind == b'F' and not table_is_sound(p + 5, size - 4, depth + 1):
            return -1
        if kind == b'A' and not array_is_sound(p + 5, size - 4, depth + 1):
            return -1
    else:
        return -1
    if 1 + size > left:
        return -1
    if kind == b'f' and read16(p + 1) & FLOAT_EXPONENT == FLOAT_EXPONENT:
        return -1
    if kind == b'd' and read16(p + 1) & DOUBLE_EXPONENT == DOUBLE_EXPONENT:
        return -1
    return 1 + size


cdef bint array_is_sound(const uint8_t* p, Py_ssize_t left, int depth) noexcept nogil:
    cdef Py_ssize_t size
    if depth >= TABLE_DEPTH_MAX:
        return False
    while left > 0:
        size = value_bytes(p, left, depth)
        if size < 0:
            return False
        p += size
        left -= size
    return True


cdef bint table_is_sound(const uint8_t* p, Py_ssize_t left, int depth) noexcept nogil:
    cdef Py_ssize_t size
    if depth >= TABLE_DEPTH_MAX:
        return False
    while left > 0:
        size = 1 + p[0]
        if size >= left:
            return False
        p += size
        left -= size
        size = value_bytes(p, left, depth)
        if size < 0:
            return False
        p += size
        left -= size
    return True


cdef bint names_more_keys(const uint8_t* p, Py_ssize_t left) noexcept nogil:
    """Whether a (sound) header table has CC or BCC, which add routing keys."""
    cdef Py_ssize_t size
    while left > 0:
        if p[0] == 2 and memcmp(p + 1, b"CC", 2) == 0:
            return True
        if p[0] == 3 and memcmp(p + 1, b"BCC", 3) == 0:
            return True
        size = 1 + p[0]
        size += value_bytes(p + size, left - size, 0)
        p += size
        left -= size
    return False


cdef int64_t parse_expiration(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef int64_t value = 0
    cdef Py_ssize_t i
    if size == 0 or size > EXPIRATION_DIGITS_MAX:
        return EXPIRATION_ODD
    for i in range(size):
        if text[i] < b'0' or text[i] > b'9':
            return EXPIRATION_ODD
        value = value * 10 + (text[i] - DIGIT_ZERO)
    return value if value <= EXPIRATION_MS_MAX else EXPIRATION_ODD


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class PropertyBlock:
    def __init__(self, bytes raw not None):
        self.raw = raw
        parse_properties(self)


cdef int parse_properties(PropertyBlock block) except -1:
    """Check the whole block and pick out what routing and queues look at."""
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(block.raw)
    cdef Py_ssize_t left = PyBytes_GET_SIZE(block.raw)
    cdef Py_ssize_t size
    cdef uint32_t bit = CONTENT_TYPE
    block.expiration_ms = EXPIRATION_NONE
    block.is_malformed = True
    if left < 2:
        return 0
    block.flags = read16(p)
    p += 2
    left -= 2
    while bit >= CLUSTER_ID:
        if not block.flags & bit:
            bit >>= 1
            continue
        if bit == DELIVERY_MODE or bit == PRIORITY:
            size = 1
        elif bit == TIMESTAMP:
            size = 8
        elif bit == HEADERS:
            size = 4 + <Py_ssize_t>read32(p) if left >= 4 else left + 1
        else:
            size = 1 + <Py_ssize_t>p[0] if left >= 1 else 1
        if size > left:
            return 0
        if bit == DELIVERY_MODE:
            block.persistent = p[0] == 2
        elif bit == PRIORITY:
            block.priority = p[0]
        elif bit == HEADERS:
            if not table_is_sound(p + 4, size - 4, 0):
                return 0
            block.needs_vetting |= names_more_keys(p + 4, size - 4)
        elif bit == REPLY_TO:
            block.needs_vetting |= (
                size == 1 + DIRECT_REPLY_TO_BYTES
                and memcmp(p + 1, _DIRECT_REPLY_TO, DIRECT_REPLY_TO_BYTES) == 0
            )
        elif bit == EXPIRATION:
            block.expiration_ms = parse_expiration(p + 1, size - 1)
            block.needs_vetting |= block.expiration_ms == EXPIRATION_ODD
        elif bit == USER_ID:
            block.needs_vetting = True
        p += size
        left -= size
        bit >>= 1
    block.is_malformed = left != 0
    return 0


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
cdef class Fault:
    def __init__(self, int kind, int channel, int frame_type, bytes payload, uint64_t detail):
        self.kind = kind
        self.channel = channel
        self.frame_type = frame_type
        self.payload = payload
        self.detail = detail


@cython.final
cdef class Assembly:
    pass


# What landing() lends out keeps the memory alive, whatever becomes of the content meanwhile.
@cython.final
@cython.no_gc
cdef class Landing:
    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(
            buffer, self, PyBytes_AS_STRING(self.body) + self.start, self.size, False, flags
        )


@cython.final
cdef class FrameReader:
    def __init__(self, uint32_t frame_max, uint64_t message_size_max):
        self.frame_max = frame_max
        self.message_size_max = message_size_max
        self._assemblies = {}
        self._last_channel = -1
        self._partial = bytearray()
        self._backlog = b""
        self._stream_left = -1

    cpdef list feed(self, object data):
        cdef list events = []
        cdef Py_buffer buffer
        cdef Py_ssize_t used
        self.octets += len(data)
        if self._backlog:
            data = self._backlog + bytes(data)
            self._backlog = b""
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            used = self._scan(<const uint8_t*>buffer.buf, buffer.len, events)
            if used < buffer.len and not self.has_stopped:
                self._backlog = (<const char*>buffer.buf)[used:buffer.len]
        finally:
            PyBuffer_Release(&buffer)
        return events

    cpdef object landing(self):
        """Where the rest of a large body frame under way belongs, for the socket to read into."""
        cdef Landing landing
        if self._stream_left < LANDING_BYTES_MIN:
            return None
        landing = Landing.__new__(Landing)
        landing.body = self._streaming.body
        landing.start = self._streaming.filled
        landing.size = self._stream_left
        return memoryview(landing)

    cpdef list landed(self, Py_ssize_t count):
        if count < 0 or count > self._stream_left:
            raise ValueError("more bytes landed than there was room for")
        self.octets += count
        self._streaming.filled += count
        self._stream_left -= count
        return []

    cpdef object forget_channel(self, uint16_t channel):
        """The channel starts anew; a body frame under way is received and dropped."""
        cdef Assembly assembly = self._assemblies.pop(channel, None)
        if self._last_channel == channel:
            self._last_channel = -1
            self._last_assembly = None
        if assembly is not None:
            assembly.state = DISCARD

    cdef Py_ssize_t _scan(self, const uint8_t* base, Py_ssize_t length, list events) except -1:
        """Take whole frames off the front; returns how much was used (all, unless stepwise)."""
        cdef Py_ssize_t position = 0
        cdef uint32_t size
        if self._stream_left >= 0:
            position = self._stream(base, length, events)
        if self._partial and not self.has_stopped:
            position += self._complete_partial(base + position, length - position, events)
        while not self.has_stopped:
            if self.stepwise and events:
                return position
            if length - position < FRAME_HEADER_BYTES:
                break
            size = read32(base + position + 3)
            if size > self.frame_max:
                self._fault(FAULT_FRAME_TOO_LARGE, base + position, 0, size, events)
                return position
            if length - position < FRAME_OVERHEAD_BYTES + <Py_ssize_t>size:
                if self._begin_stream(base + position, size):
                    position += FRAME_HEADER_BYTES
                    return position + self._stream(base + position, length - position, events)
                break
            if base[position + FRAME_HEADER_BYTES + size] != FRAME_END:
                self._fault(
                    FAULT_FRAME_END, base + position, size,
                    base[position + FRAME_HEADER_BYTES + size], events,
                )
                return position
            self._frame(base + position, size, events)
            position += FRAME_OVERHEAD_BYTES + size
        if position < length and not self.has_stopped:
            self._partial.extend(base[position:length])
        return length

    cdef bint _begin_stream(self, const uint8_t* frame, uint32_t size) except -1:
        """Whether an incomplete frame is body that fits, and so goes into its place as it comes."""
        cdef Assembly assembly
        if frame[0] != FRAME_BODY:
            return False
        assembly = self._assembly(read16(frame + 1))
        if assembly.state != EXPECT_BODY or assembly.size - assembly.filled < size:
            return False
        self._streaming = assembly
        self._stream_channel = read16(frame + 1)
        self._stream_left = size
        self._stream_start = assembly.filled
        return True

    cdef Py_ssize_t _stream(self, const uint8_t* base, Py_ssize_t length, list events) except -1:
        """Copy the body frame under way into place, however small the reads; returns bytes used."""
        cdef Assembly assembly = self._streaming
        cdef Py_ssize_t count = length if length < self._stream_left else self._stream_left
        memcpy(PyBytes_AS_STRING(assembly.body) + assembly.filled, base, count)
        assembly.filled += count
        self._stream_left -= count
        if self._stream_left > 0 or count == length:
            return count
        self._stream_left = -1
        self._streaming = None
        if base[count] != FRAME_END:
            events.append(Fault(
                FAULT_FRAME_END, self._stream_channel, FRAME_BODY,
                assembly.body[self._stream_start:assembly.filled], base[count],
            ))
            self.has_stopped = True
            return count
        self.frames += 1
        if assembly.state == EXPECT_BODY and assembly.filled == assembly.size:
            self._finish(assembly, self._stream_channel, events)
        return count + 1

    cdef Py_ssize_t _complete_partial(
        self, const uint8_t* base, Py_ssize_t length, list events
    ) except -1:
        """Fill up the frame whose beginning came with an earlier read."""
        cdef bytearray partial = self._partial
        cdef Py_ssize_t have = len(partial)
        cdef Py_ssize_t take = 0
        cdef uint32_t size
        cdef const uint8_t* frame
        if have < FRAME_HEADER_BYTES:
            take = min(FRAME_HEADER_BYTES - have, length)
            partial.extend(base[:take])
            have += take
            if have < FRAME_HEADER_BYTES:
                return take
        frame = <const uint8_t*>PyByteArray_AS_STRING(partial)
        size = read32(frame + 3)
        if size > self.frame_max:
            self._fault(FAULT_FRAME_TOO_LARGE, frame, 0, size, events)
            return take
        if self._begin_stream(frame, size):
            self._partial = bytearray()
            return take + self._stream(base + take, length - take, events)
        cdef Py_ssize_t missing = FRAME_OVERHEAD_BYTES + <Py_ssize_t>size - have
        cdef Py_ssize_t more = min(missing, length - take)
        partial.extend(base[take:take + more])
        if more < missing:
            return take + more
        frame = <const uint8_t*>PyByteArray_AS_STRING(partial)
        if frame[FRAME_HEADER_BYTES + size] != FRAME_END:
            self._fault(FAULT_FRAME_END, frame, size, frame[FRAME_HEADER_BYTES + size], events)
        else:
            self._frame(frame, size, events)
        self._partial = bytearray()
        return take + more

    cdef int _frame(self, const uint8_t* frame, uint32_t size, list events) except -1:
        cdef uint8_t kind = frame[0]
        cdef uint16_t channel = read16(frame + 1)
        cdef const uint8_t* payload = frame + FRAME_HEADER_BYTES
        self.frames += 1
        if kind == FRAME_METHOD and size >= 4:
            return self._method(channel, payload, size, events)
        if kind == FRAME_BODY:
            return self._body(channel, payload, size, events)
        if kind == FRAME_HEADER and size >= CONTENT_HEADER_FIXED_BYTES:
            return self._header(channel, payload, size, events)
        if kind != FRAME_HEARTBEAT or size != 0:
            return self._fault(FAULT_UNKNOWN_FRAME, frame, size, 0, events)
        if channel != 0:
            return self._fault(FAULT_STRAY_FRAME, frame, size, 0, events)
        return 0

    cdef int _method(
        self, uint16_t channel, const uint8_t* payload, uint32_t size, list events
    ) except -1:
        cdef uint32_t index = read32(payload)
        cdef Assembly assembly = self._assembly(channel)
        cdef Ack ack
        if assembly.state != EXPECT_METHOD and assembly.state != DISCARD:
            self._fault(
                FAULT_EXPECTED_HEADER if assembly.state == EXPECT_HEADER else FAULT_EXPECTED_BODY,
                payload - FRAME_HEADER_BYTES, size, 0, events,
            )
            assembly.state = EXPECT_METHOD
            assembly.body = None
            return 0
        assembly.state = EXPECT_METHOD
        if index == BASIC_PUBLISH and channel != 0 and self._publish(assembly, payload, size):
            return 0
        if index == BASIC_ACK and size == ACK_BYTES and channel != 0:
            ack = Ack.__new__(Ack)
            ack.channel = channel
            ack.delivery_tag = read64(payload + 4)
            ack.multiple = payload[12] & 1
            events.append(ack)
            return 0
        events.append(MethodFrame(channel, PyBytes_FromStringAndSize(<char*>payload, size)))
        return 0

    cdef int _publish(self, Assembly assembly, const uint8_t* payload, uint32_t size) except -1:
        """Begin a content; 0 if the arguments do not fit (the strict decoder says why)."""
        cdef const uint8_t* key = payload + 6
        cdef Py_ssize_t key_bytes
        if size < PUBLISH_BYTES_MIN:
            return 0
        key_bytes = 1 + <Py_ssize_t>key[0]
        if 6 + key_bytes + 2 > size:
            return 0
        key_bytes += 1 + <Py_ssize_t>key[key_bytes]
        if 6 + key_bytes + 1 != size:
            return 0
        if self._last_route_key is None or PyBytes_GET_SIZE(self._last_route_key) != key_bytes \
                or memcmp(PyBytes_AS_STRING(self._last_route_key), key, key_bytes) != 0:
            self._last_route_key = PyBytes_FromStringAndSize(<char*>key, key_bytes)
        assembly.route_key = self._last_route_key
        assembly.flags = payload[size - 1] & 3
        assembly.state = EXPECT_HEADER
        return 1

    cdef int _header(
        self, uint16_t channel, const uint8_t* payload, uint32_t size, list events
    ) except -1:
        cdef Assembly assembly = self._assembly(channel)
        cdef const uint8_t* block = payload + CONTENT_HEADER_FIXED_BYTES
        cdef Py_ssize_t block_bytes = <Py_ssize_t>size - CONTENT_HEADER_FIXED_BYTES
        cdef uint64_t body_size
        cdef int kind = 0
        cdef uint64_t detail = 0
        if assembly.state == DISCARD:
            return 0
        if channel == 0:
            kind = FAULT_STRAY_FRAME
        elif assembly.state != EXPECT_HEADER:
            kind = FAULT_EXPECTED_METHOD if assembly.state == EXPECT_METHOD else FAULT_EXPECTED_BODY
        elif read16(payload + 2) != 0:
            kind = FAULT_EXPECTED_HEADER
        elif read16(payload) != CLASS_BASIC:
            kind = FAULT_WRONG_CLASS
            detail = read16(payload)
        if kind:
            assembly.state = EXPECT_METHOD
            assembly.body = None
            return self._fault(kind, payload - FRAME_HEADER_BYTES, size, detail, events)
        assembly.state = DISCARD
        assembly.properties = self._properties(block, block_bytes)
        if assembly.properties.is_malformed:
            return self._fault(
                FAULT_MALFORMED_PROPERTIES, payload - FRAME_HEADER_BYTES, size, 0, events
            )
        body_size = read64(payload + 4)
        if body_size > self.message_size_max:
            return self._fault(
                FAULT_MESSAGE_TOO_LARGE, payload - FRAME_HEADER_BYTES, size, body_size, events
            )
        assembly.size = <Py_ssize_t>body_size
        assembly.filled = 0
        if body_size == 0:
            assembly.body = b""
            return self._finish(assembly, channel, events)
        # Memory nobody has written to costs next to nothing, so the size can be taken on trust.
        assembly.body = PyBytes_FromStringAndSize(NULL, assembly.size)
        assembly.state = EXPECT_BODY
        return 0

    cdef PropertyBlock _properties(self, const uint8_t* block, Py_ssize_t size):
        cdef PropertyBlock last = self._last_properties
        if last is None or PyBytes_GET_SIZE(last.raw) != size \
                or memcmp(PyBytes_AS_STRING(last.raw), block, size) != 0:
            last = PropertyBlock(PyBytes_FromStringAndSize(<char*>block, size))
            self._last_properties = last
        return last

    cdef int _body(
        self, uint16_t channel, const uint8_t* payload, uint32_t size, list events
    ) except -1:
        cdef Assembly assembly = self._assembly(channel)
        cdef int kind
        if assembly.state == EXPECT_BODY:
            if <Py_ssize_t>size > assembly.size - assembly.filled:
                # RabbitMQ waits for a body that can no longer end; so do we, keeping nothing.
                assembly.state = OVERRUN
                assembly.body = None
                return 0
            memcpy(PyBytes_AS_STRING(assembly.body) + assembly.filled, payload, size)
            assembly.filled += size
            if assembly.filled == assembly.size:
                self._finish(assembly, channel, events)
            return 0
        if assembly.state == DISCARD or assembly.state == OVERRUN:
            return 0
        if channel == 0:
            kind = FAULT_STRAY_FRAME
        else:
            kind = FAULT_EXPECTED_METHOD if assembly.state == EXPECT_METHOD \
                else FAULT_EXPECTED_HEADER
        assembly.state = EXPECT_METHOD
        return self._fault(kind, payload - FRAME_HEADER_BYTES, size, 0, events)

    cdef int _finish(self, Assembly assembly, uint16_t channel, list events) except -1:
        cdef Message message = Message.__new__(Message)
        message.route_key = assembly.route_key
        message.properties = assembly.properties
        message.body = assembly.body
        message.channel = channel
        message.flags = assembly.flags
        assembly.body = None
        assembly.state = EXPECT_METHOD
        events.append(message)
        return 0

    cdef Assembly _assembly(self, uint16_t channel):
        cdef Assembly assembly
        if self._last_channel == channel:
            return self._last_assembly
        assembly = self._assemblies.get(channel)
        if assembly is None:
            assembly = Assembly.__new__(Assembly)
            assembly.state = EXPECT_METHOD
            self._assemblies[channel] = assembly
        self._last_assembly = assembly
        self._last_channel = channel
        return assembly

    cdef int _fault(
        self, int kind, const uint8_t* frame, uint32_t size, uint64_t detail, list events
    ) except -1:
        """Report; with the boundary between frames lost, the rest of the stream means nothing."""
        events.append(Fault(
            kind, read16(frame + 1), frame[0],
            PyBytes_FromStringAndSize(<char*>frame + FRAME_HEADER_BYTES, size), detail,
        ))
        if kind == FAULT_FRAME_END or kind == FAULT_FRAME_TOO_LARGE:
            self.has_stopped = True
        return 0


@cython.final
cdef class OutputBuffer:
    def __init__(
        self, uint32_t frame_max, Py_ssize_t congestion_bytes, object on_first_write,
        object on_congested=None,
    ):
        self.frame_max = frame_max
        self.waiting = []
        self._congestion_bytes = congestion_bytes
        self._on_first_write = on_first_write
        self._on_congested = on_congested
        self._sealed = []
        self._chunk_bytes = CHUNK_BYTES_MIN

    cdef uint8_t* _reserve(self, Py_ssize_t count) except NULL:
        """Room for `count` more bytes in one piece."""
        if self.size == 0:
            self._on_first_write()
        if self._chunk is None or self._used + count > self._capacity:
            if self._chunk is not None:
                self._chunk_bytes = min(self._capacity * 2, CHUNK_BYTES_MAX)
            self._seal()
            self._capacity = max(self._chunk_bytes, count)
            self._chunk = PyBytes_FromStringAndSize(NULL, self._capacity)
        return <uint8_t*>PyBytes_AS_STRING(self._chunk) + self._used

    cdef int _commit(self, Py_ssize_t count) except -1:
        self._used += count
        self.size += count
        self.octets += count
        if self.size > self._congestion_bytes and not self.is_congested:
            self.is_congested = True
            if self._on_congested is not None:
                self._on_congested()
        return 0

    cdef int _seal(self) except -1:
        """Close the chunk under construction: what is written so far goes as one piece."""
        cdef PyObject* piece
        if self._chunk is None:
            return 0
        if self._used == 0:
            self._chunk = None
            return 0
        piece = <PyObject*>self._chunk
        Py_INCREF(self._chunk)
        self._chunk = None
        _PyBytes_Resize(&piece, self._used)
        self._sealed.append(<bytes>piece)
        Py_DECREF(<bytes>piece)
        self._used = 0
        return 0

    cdef int _body_frames(self, uint16_t channel, bytes body) except -1:
        """The body in frames of at most frame_max, large pieces by reference."""
        cdef Py_ssize_t total = PyBytes_GET_SIZE(body)
        cdef Py_ssize_t room = self.frame_max - FRAME_OVERHEAD_BYTES
        cdef Py_ssize_t start = 0
        cdef Py_ssize_t size
        cdef uint8_t* p
        while start < total:
            size = min(room, total - start)
            if size < BODY_BY_REFERENCE_MIN:
                p = self._reserve(size + FRAME_OVERHEAD_BYTES)
                p = put_frame(p, FRAME_BODY, channel, <uint32_t>size)
                memcpy(p, PyBytes_AS_STRING(body) + start, size)
                p[size] = FRAME_END
                self._commit(size + FRAME_OVERHEAD_BYTES)
            else:
                put_frame(self._reserve(FRAME_HEADER_BYTES), FRAME_BODY, channel, <uint32_t>size)
                self._used += FRAME_HEADER_BYTES
                self._seal()
                self._sealed.append(body if size == total else memoryview(body)[start:start + size])
                self._referenced += size
                self._chunk_bytes = CHUNK_BYTES_MIN
                # Counted before anybody is told: `_reserve` must not announce a second time.
                self.size += FRAME_HEADER_BYTES + size
                self.octets += FRAME_HEADER_BYTES + size
                p = self._reserve(1)
                p[0] = FRAME_END
                self._commit(1)
            start += size
        return 0

    cpdef object raw(self, bytes data):
        cdef Py_ssize_t size = len(data)
        put_bytes(self._reserve(size), data)
        self._commit(size)

    cpdef object method(self, uint16_t channel, bytes payload):
        cdef Py_ssize_t size = len(payload)
        cdef uint8_t* p = self._reserve(size + FRAME_OVERHEAD_BYTES)
        p = put_bytes(put_frame(p, FRAME_METHOD, channel, <uint32_t>size), payload)
        p[0] = FRAME_END
        self._commit(size + FRAME_OVERHEAD_BYTES)

    cpdef object heartbeat(self):
        cdef uint8_t* p = self._reserve(FRAME_OVERHEAD_BYTES)
        p = put_frame(p, FRAME_HEARTBEAT, 0, 0)
        p[0] = FRAME_END
        self._commit(FRAME_OVERHEAD_BYTES)

    cpdef object ack(self, uint16_t channel, uint64_t delivery_tag, bint multiple):
        self._confirm(BASIC_ACK, channel, delivery_tag, multiple)

    cpdef object nack(self, uint16_t channel, uint64_t delivery_tag, bint multiple):
        self._confirm(BASIC_NACK, channel, delivery_tag, multiple)

    cdef _confirm(self, uint32_t index, uint16_t channel, uint64_t delivery_tag, bint multiple):
        cdef uint8_t* p = self._reserve(ACK_BYTES + FRAME_OVERHEAD_BYTES)
        p = put32(put_frame(p, FRAME_METHOD, channel, ACK_BYTES), index)
        p = put64(p, delivery_tag)
        p[0] = multiple
        p[1] = FRAME_END
        self._commit(ACK_BYTES + FRAME_OVERHEAD_BYTES)

    cdef bint _is_copied(self, Message message) noexcept:
        """Whether the body goes into the chunk together with its method and header."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(message.body)
        return (
            0 < size < BODY_BY_REFERENCE_MIN
            and size <= <Py_ssize_t>self.frame_max - FRAME_OVERHEAD_BYTES
        )

    cdef Py_ssize_t _content_bytes(self, Message message) noexcept:
        """Bytes of the content header frame, and of the body frame if that is copied."""
        cdef Py_ssize_t size = (
            FRAME_OVERHEAD_BYTES + CONTENT_HEADER_FIXED_BYTES
            + PyBytes_GET_SIZE(message.properties.raw)
        )
        if self._is_copied(message):
            size += FRAME_OVERHEAD_BYTES + PyBytes_GET_SIZE(message.body)
        return size

    cdef int _put_content(
        self, uint8_t* p, uint16_t channel, Message message, Py_ssize_t total
    ) except -1:
        """Complete the `total` bytes reserved for a method with its content; then large bodies."""
        cdef Py_ssize_t body_bytes = PyBytes_GET_SIZE(message.body)
        cdef bint is_copied = self._is_copied(message)
        p = put_content_header(p, channel, message.properties.raw, body_bytes)
        if is_copied:
            p = put_frame(p, FRAME_BODY, channel, <uint32_t>body_bytes)
            p = put_bytes(p, message.body)
            p[0] = FRAME_END
        self._commit(total)
        if not is_copied:
            self._body_frames(channel, message.body)
        return 0

    @cython.nonecheck(True)
    cpdef object deliver(
        self, uint16_t channel, bytes consumer_tag, uint64_t delivery_tag, bint redelivered,
        Message message,
    ):
        """One basic.deliver; `consumer_tag` comes with its length octet."""
        cdef Py_ssize_t size = 13 + len(consumer_tag) + PyBytes_GET_SIZE(message.route_key)
        cdef Py_ssize_t total = FRAME_OVERHEAD_BYTES + size + self._content_bytes(message)
        cdef uint8_t* p = self._reserve(total)
        p = put32(put_frame(p, FRAME_METHOD, channel, <uint32_t>size), BASIC_DELIVER)
        p = put64(put_bytes(p, consumer_tag), delivery_tag)
        p[0] = redelivered
        p = put_bytes(p + 1, message.route_key)
        p[0] = FRAME_END
        self._put_content(p + 1, channel, message, total)

    cpdef object content(self, uint16_t channel, bytes method, Message message):
        """A method with content that is not a delivery: basic.get-ok, basic.return."""
        if message is None:
            raise TypeError("a message, not None")
        cdef Py_ssize_t size = len(method)
        cdef Py_ssize_t total = FRAME_OVERHEAD_BYTES + size + self._content_bytes(message)
        cdef uint8_t* p = self._reserve(total)
        p = put_bytes(put_frame(p, FRAME_METHOD, channel, <uint32_t>size), method)
        p[0] = FRAME_END
        self._put_content(p + 1, channel, message, total)

    cpdef list take(self):
        """Everything written so far, in pieces; the buffer is empty afterwards."""
        cdef list pieces
        self._seal()
        # Start the next turn with a chunk of about what this turn needed.
        self._chunk_bytes = min(max(self.size - self._referenced, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)
        self._referenced = 0
        pieces = self._sealed
        self._sealed = []
        self.size = 0
        return pieces


cdef inline uint8_t* put_content_header(
    uint8_t* p, uint16_t channel, bytes block, uint64_t body_bytes
):
    cdef Py_ssize_t size = CONTENT_HEADER_FIXED_BYTES + PyBytes_GET_SIZE(block)
    p = put_frame(p, FRAME_HEADER, channel, <uint32_t>size)
    p = put64(put32(p, CLASS_BASIC << 16), body_bytes)
    p = put_bytes(p, block)
    p[0] = FRAME_END
    return p + 1
