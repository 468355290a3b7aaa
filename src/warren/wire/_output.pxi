"""Deliveries, confirms and methods to bytes (twin: `_output_py.py`)."""

cdef enum:
    CHUNK_BYTES_MIN = 512
    CHUNK_BYTES_MAX = 262144
    BODY_BY_REFERENCE_MIN = 16384


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


cdef inline uint8_t* put_content_header(
    uint8_t* p, uint16_t channel, bytes block, uint64_t body_bytes
):
    cdef Py_ssize_t size = CONTENT_HEADER_FIXED_BYTES + PyBytes_GET_SIZE(block)
    p = put_frame(p, FRAME_HEADER, channel, <uint32_t>size)
    p = put64(put32(p, CLASS_BASIC << 16), body_bytes)
    p = put_bytes(p, block)
    p[0] = FRAME_END
    return p + 1


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
        cdef Py_ssize_t used
        if self._chunk is None:
            return 0
        if self._used == 0:
            self._chunk = None
            return 0
        piece = <PyObject*>self._chunk
        Py_INCREF(self._chunk)
        self._chunk = None
        used = self._used
        self._used = 0
        _PyBytes_Resize(&piece, used)  # raises MemoryError, and then there is no piece
        self._sealed.append(<bytes>piece)
        Py_DECREF(<bytes>piece)
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
