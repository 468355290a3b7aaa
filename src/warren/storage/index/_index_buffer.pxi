"""Encoding (twin: `RecordBuffer` in `_index_records_py.py`)."""


@cython.final
cdef class RecordBuffer:
    def __init__(self, uint32_t salt):
        self._salt = salt
        self._data = bytearray(BUFFER_BYTES_MIN)

    cpdef object clear(self):
        self.size = 0

    cpdef object view(self):
        return memoryview(self._data)[:self.size]

    cpdef Py_ssize_t publishes(
        self, uint32_t queue_id, list gathered, Py_ssize_t position, Py_ssize_t bytes_max
    ) except -1:
        cdef QueuedMessage queued
        cdef Py_ssize_t count = len(gathered)
        while position < count and self.size < bytes_max:
            queued = <QueuedMessage>gathered[position]
            position += 1
            if queued.state == STATE_GATHERED:
                queued.state = STATE_WRITING
                self._publish(queue_id, queued)
        return position

    cpdef Py_ssize_t scatter(
        self, uint32_t queue_id, list journaled, Py_ssize_t position, uint64_t end,
        Py_ssize_t bytes_max
    ) except -1:
        cdef QueuedMessage queued
        cdef Py_ssize_t count = len(journaled)
        while position < count and self.size < bytes_max:
            queued = <QueuedMessage>journaled[position]
            if queued.sequence >= end:
                break
            position += 1
            if queued.state == STATE_JOURNALED:
                queued.state = STATE_SCATTERING
                self._publish(queue_id, queued)
        return position

    cpdef object ack(self, uint32_t queue_id, uint64_t first, uint64_t count, uint64_t body_bytes):
        cdef uint8_t* p = self._reserve(ACK_BYTES)
        put_head(p, KIND_ACK, 0, queue_id, first)
        put64(p + HEAD_BYTES, count)
        put64(p + HEAD_BYTES + 8, body_bytes)
        self._finish(p, ACK_BYTES)

    cpdef object ack_stored(
        self, uint32_t queue_id, uint64_t sequence, uint64_t body_bytes, int64_t file,
        int64_t offset
    ):
        cdef uint8_t* p = self._reserve(ACK_BYTES + LOCATION_BYTES)
        put_head(p, KIND_ACK, FLAG_STORED, queue_id, sequence)
        put64(p + HEAD_BYTES, 1)
        put64(p + HEAD_BYTES + 8, body_bytes)
        put64(p + ACK_BYTES, <uint64_t>file)
        put64(p + ACK_BYTES + 8, <uint64_t>offset)
        self._finish(p, ACK_BYTES + LOCATION_BYTES)

    cpdef object ack_range(self, uint32_t queue_id, uint64_t first, uint64_t end):
        cdef uint8_t* p = self._reserve(NUMBER_BYTES)
        put_head(p, KIND_ACK_RANGE, 0, queue_id, first)
        put64(p + HEAD_BYTES, end)
        self._finish(p, NUMBER_BYTES)

    cpdef object queue_named(self, uint32_t queue_id, bytes name):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(name)
        cdef uint8_t* p = self._reserve(HEAD_BYTES + size)
        put_head(p, KIND_QUEUE, 0, queue_id, 0)
        memcpy(p + HEAD_BYTES, PyBytes_AS_STRING(name), size)
        self._finish(p, HEAD_BYTES + size)

    cpdef object queue_deleted(self, uint32_t queue_id):
        cdef uint8_t* p = self._reserve(HEAD_BYTES)
        put_head(p, KIND_DELETE, 0, queue_id, 0)
        self._finish(p, HEAD_BYTES)

    cpdef object file_started(self, uint64_t number, uint64_t previous, uint64_t previous_end):
        cdef uint8_t* p = self._reserve(ACK_BYTES)
        put_head(p, KIND_FILE_START, 0, 0, number)
        put64(p + HEAD_BYTES, previous)
        put64(p + HEAD_BYTES + 8, previous_end)
        self._finish(p, ACK_BYTES)

    cdef int _publish(self, uint32_t queue_id, QueuedMessage queued) except -1:
        if queued.store_file != NO_STORE_FILE:
            return self._publish_stored(queue_id, queued)
        cdef Message message = queued.message
        cdef PropertyBlock properties = message.properties
        cdef Py_ssize_t route_key_bytes = PyBytes_GET_SIZE(message.route_key)
        cdef Py_ssize_t raw_bytes = PyBytes_GET_SIZE(properties.raw)
        cdef Py_ssize_t body_bytes = PyBytes_GET_SIZE(message.body)
        cdef Py_ssize_t length = PUBLISH_BYTES + route_key_bytes + raw_bytes + body_bytes
        cdef uint8_t* p = self._reserve(length)
        cdef uint8_t* at = p + PUBLISH_BYTES
        put_head(
            p, KIND_PUBLISH, 0 if properties.persistent else FLAG_TRANSIENT, queue_id,
            queued.sequence,
        )
        put16(p + 10, <uint16_t>route_key_bytes)
        put64(p + 24, <uint64_t>queued.expires_at_ms)
        put32(p + 32, <uint32_t>raw_bytes)
        put32(p + 36, <uint32_t>body_bytes)
        memcpy(at, PyBytes_AS_STRING(message.route_key), route_key_bytes)
        memcpy(at + route_key_bytes, PyBytes_AS_STRING(properties.raw), raw_bytes)
        memcpy(at + route_key_bytes + raw_bytes, PyBytes_AS_STRING(message.body), body_bytes)
        return self._finish(p, length)

    cdef int _publish_stored(self, uint32_t queue_id, QueuedMessage queued) except -1:
        cdef uint8_t* p = self._reserve(PUBLISH_BYTES + LOCATION_BYTES)
        cdef uint8_t flags = FLAG_STORED
        if queued.store_file >= TRANSIENT_FILE_MIN:
            flags |= FLAG_TRANSIENT
        put_head(p, KIND_PUBLISH, flags, queue_id, queued.sequence)
        put64(p + 24, <uint64_t>queued.expires_at_ms)
        put32(p + 32, 0)
        put32(p + 36, queued.size)
        put64(p + PUBLISH_BYTES, <uint64_t><int64_t>queued.store_file)
        put64(p + PUBLISH_BYTES + 8, <uint64_t>queued.store_offset)
        return self._finish(p, PUBLISH_BYTES + LOCATION_BYTES)

    cdef uint8_t* _reserve(self, Py_ssize_t count) except NULL:
        """Room for a record and its filling; the buffer grows by doubling."""
        cdef Py_ssize_t needed = self.size + aligned(count)
        cdef Py_ssize_t capacity = len(self._data)
        if needed > capacity:
            while capacity < needed:
                capacity *= 2
            PyByteArray_Resize(self._data, capacity)
        return <uint8_t*>PyByteArray_AS_STRING(self._data) + self.size

    cdef int _finish(self, uint8_t* record, Py_ssize_t length) noexcept:
        cdef Py_ssize_t filled = aligned(length)
        memset(record + length, 0, filled - length)
        put32(record + 4, <uint32_t>length)
        put32(record, crc32c_update(self._salt, record + 4, length - 4))
        self.size += filled
        return 0
