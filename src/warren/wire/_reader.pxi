"""Bytes to events (twin: `_reader_py.py`, which says what all this means)."""

cdef enum:
    PUBLISH_BYTES_MIN = 9
    LANDING_BYTES_MIN = 16384

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

    def is_in_content(self):
        """Whether a message has begun, header and all, and is not complete."""
        cdef Assembly assembly
        for assembly in self._assemblies.values():
            if assembly.state == EXPECT_BODY:
                return True
        return False

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
        if self.is_client and (index == BASIC_DELIVER or index == BASIC_GET_OK) \
                and channel != 0 and self._delivery(assembly, channel, payload, size):
            return 0
        if index == BASIC_RETURN and self.is_client and channel != 0:
            assembly.state = DISCARD
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
        assembly.route_key = self._route_key(key, key_bytes)
        assembly.delivery = None
        assembly.flags = payload[size - 1] & 3
        assembly.state = EXPECT_HEADER
        return 1

    cdef int _delivery(
        self, Assembly assembly, uint16_t channel, const uint8_t* payload, uint32_t size
    ) except -1:
        """Begin the content of a basic.deliver or basic.get-ok; 0 if the arguments do not fit."""
        cdef bint is_got = read32(payload) == BASIC_GET_OK
        cdef Py_ssize_t start = 4 if is_got else 5 + <Py_ssize_t>payload[4]
        cdef Py_ssize_t end = <Py_ssize_t>size - (4 if is_got else 0)
        cdef const uint8_t* key = payload + start + 9
        cdef Py_ssize_t key_bytes
        cdef Delivery delivery
        if size < 5 or start + 9 + 2 > end:
            return 0
        key_bytes = 1 + <Py_ssize_t>key[0]
        if start + 9 + key_bytes + 1 > end:
            return 0
        key_bytes += 1 + <Py_ssize_t>key[key_bytes]
        if start + 9 + key_bytes != end:
            return 0
        delivery = Delivery.__new__(Delivery)
        delivery.channel = channel
        delivery.consumer_tag = b"" if is_got else (<const char*>payload)[5:start]
        delivery.delivery_tag = read64(payload + start)
        delivery.redelivered = payload[start + 8] & 1
        delivery.messages_left = read32(payload + end) if is_got else 0
        assembly.route_key = self._route_key(key, key_bytes)
        assembly.delivery = delivery
        assembly.flags = 0
        assembly.state = EXPECT_HEADER
        return 1

    cdef bytes _route_key(self, const uint8_t* key, Py_ssize_t size):
        """The last one again, if it is the same: publishers repeat themselves."""
        cdef bytes last = self._last_route_key
        if last is None or PyBytes_GET_SIZE(last) != size \
                or memcmp(PyBytes_AS_STRING(last), key, size) != 0:
            last = PyBytes_FromStringAndSize(<char*>key, size)
            self._last_route_key = last
        return last

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
        if assembly.delivery is None:
            events.append(message)
            return 0
        assembly.delivery.message = message
        events.append(assembly.delivery)
        assembly.delivery = None
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
