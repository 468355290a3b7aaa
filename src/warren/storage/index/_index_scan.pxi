"""ReadGate back (twin: `Record`, `scan` and `EntryReader` in `_index_records_py.py`)."""


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Record:
    def payload(self, bytes data not None):
        return data[self.start + HEAD_BYTES : self.start + self.length]

    def queued(self, bytes data not None):
        return queued_of(self, data, None)


cdef bint is_good(const uint8_t* p, Py_ssize_t room, uint32_t salt) noexcept nogil:
    """Whether a whole record stands here, sound in itself."""
    cdef uint32_t length
    if room < HEAD_BYTES:
        return False
    length = get32(p + 4)
    if p[8] < KIND_PUBLISH or p[8] > KIND_FILE_START:
        return False
    if length < HEAD_BYTES or length > RECORD_BYTES_MAX or length > room:
        return False
    if crc32c_update(salt, p + 4, length - 4) != get32(p):
        return False
    return has_its_fields(p, length)


cdef bint has_its_fields(const uint8_t* p, uint32_t length) noexcept nogil:
    cdef uint64_t needed = HEAD_BYTES
    cdef bint is_stored = (p[9] & FLAG_STORED) != 0
    if p[8] == KIND_PUBLISH:
        needed = PUBLISH_BYTES
        if get64(p + 16) == UINT64_MAX:
            return False  # there is no number after it
        if not is_stored and length >= PUBLISH_BYTES:
            needed += <uint64_t>get16(p + 10) + get32(p + 32) + get32(p + 36)
    elif p[8] == KIND_ACK or p[8] == KIND_FILE_START:
        needed = ACK_BYTES
    elif p[8] == KIND_ACK_RANGE:
        needed = NUMBER_BYTES
    if is_stored:
        if p[8] != KIND_PUBLISH and p[8] != KIND_ACK and p[8] != KIND_FILE_START:
            return False  # others have no location, and none is to be read behind their end
        needed += LOCATION_BYTES
        # Files are counted from 0, and messages in memory have 31 bits for their number.
        if length >= needed and get64(p + 40) > STORE_FILE_MAX:
            return False
    return length >= needed


cdef Py_ssize_t next_good(
    const uint8_t* base, Py_ssize_t position, Py_ssize_t size, uint32_t salt
) noexcept nogil:
    while position + HEAD_BYTES <= size:
        if is_good(base + position, size - position, salt):
            return position
        position += 8
    return -1


cdef Record record_at(const uint8_t* base, Py_ssize_t start):
    cdef const uint8_t* p = base + start
    cdef Record record = Record.__new__(Record)
    record.start = start
    record.length = get32(p + 4)
    record.kind = p[8]
    record.flags = p[9]
    record.queue_id = get32(p + 12)
    record.sequence = get64(p + 16)
    record.store_file = NO_STORE_FILE
    if record.kind == KIND_PUBLISH:
        record.expires_at_ms = <int64_t>get64(p + 24)
        record.size = get32(p + 36)
    elif record.kind == KIND_ACK or record.kind == KIND_FILE_START:
        record.count = get64(p + 24)
        record.size = get64(p + 32)
    elif record.kind == KIND_ACK_RANGE:
        record.count = get64(p + 24)
    if record.flags & FLAG_STORED:
        record.store_file = <int64_t>get64(p + 40)
        record.store_offset = <int64_t>get64(p + 48)
    return record


cdef bytes shared(bytes before, const uint8_t* p, Py_ssize_t size):
    """These bytes as an object: the one from before if it says the same."""
    if before is not None and PyBytes_GET_SIZE(before) == size:
        if memcmp(PyBytes_AS_STRING(before), p, size) == 0:
            return before
    return PyBytes_FromStringAndSize(<const char*>p, size)


cdef Message message_at(const uint8_t* p, Message before):
    cdef Py_ssize_t route_key_bytes = get16(p + 10)
    cdef Py_ssize_t raw_bytes = get32(p + 32)
    cdef const uint8_t* at = p + PUBLISH_BYTES
    cdef bytes route_key = shared(
        before.route_key if before is not None else None, at, route_key_bytes
    )
    cdef PropertyBlock properties = before.properties if before is not None else None
    cdef bytes raw = shared(
        properties.raw if properties is not None else None, at + route_key_bytes, raw_bytes
    )
    if properties is None or raw is not properties.raw:
        properties = PropertyBlock(raw)
    return Message(
        route_key, properties,
        PyBytes_FromStringAndSize(<const char*>at + route_key_bytes + raw_bytes, get32(p + 36)),
    )


cdef QueuedMessage queued_of(Record record, bytes data, Message before):
    cdef Message message = None
    cdef QueuedMessage queued
    if not record.flags & FLAG_STORED:
        message = message_at(<const uint8_t*>PyBytes_AS_STRING(data) + record.start, before)
    queued = QueuedMessage(message, record.sequence, record.expires_at_ms)
    queued.size = <uint32_t>record.size
    queued.store_file = record.store_file
    queued.store_offset = record.store_offset
    queued.state = STATE_JOURNALED
    return queued


def scan(bytes data not None, Py_ssize_t start, uint32_t salt):
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), position = start, end = start, found
    cdef list records = [], damage = []
    cdef Record record
    while True:
        if not is_good(base + position, size - position, salt):
            found = next_good(base, position + 8, size, salt)
            if found < 0:
                break
            damage.append((position, found))
            position = found
        record = record_at(base, position)
        records.append(record)
        position = end = aligned(position + record.length)
    return records, min(end, size), damage


@cython.final
cdef class EntryReader:
    def __init__(self, uint32_t salt, uint64_t base, bytes wanted not None):
        self._salt = salt
        self._base = base
        self.passed = base
        self._wanted = wanted
        self.left = int.from_bytes(wanted, "little").bit_count()

    cpdef list read(self, bytes data, Py_ssize_t start, Py_ssize_t bytes_max):
        cdef const uint8_t* first = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), position = start, found
        cdef list entries = []
        cdef Record record
        cdef QueuedMessage queued
        while bytes_max > 0 and self.left > 0:
            if not is_good(first + position, size - position, self._salt):
                found = next_good(first, position + 8, size, self._salt)
                if found < 0:
                    break
                self.damaged += found - position
                position = found
            record = record_at(first, position)
            position = aligned(position + record.length)
            if record.kind == KIND_PUBLISH and record.sequence >= self.passed:
                self.passed = record.sequence + 1
            if self._is_wanted(record):
                queued = queued_of(record, data, self._before)
                queued.state = STATE_SEGMENTED
                if queued.message is not None:
                    self._before = queued.message
                entries.append(queued)
                bytes_max -= record.length
                self.left -= 1
        self.position = min(position, size)
        return entries

    cdef bint _is_wanted(self, Record record) noexcept:
        cdef uint64_t place = record.sequence - self._base
        if record.kind != KIND_PUBLISH or place >= 8 * <uint64_t>PyBytes_GET_SIZE(self._wanted):
            return False
        return (<uint8_t*>PyBytes_AS_STRING(self._wanted))[place >> 3] >> (place & 7) & 1
