"""Chunks, compiled (twin: `_chunk_py.py`; format: `chunk_format.py`).

What is done here only for speed: publishers repeat themselves, and messages like the one before
share its route and its property block as Python objects, so a look at the object often spares the
look into a dictionary; and the offset is put into a property block with three copies.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from warren.storage.disk._checksum cimport crc32c_update
from warren.wire._codec cimport Message, PropertyBlock
from warren.streams import chunk_format
from warren.streams.chunk_format import MalformedChunk, read_header
from warren.streams.offset_header import (
    ENTRY_HEAD, OFFSET_HEADER, headers_place, with_offset_slowly,
)


cdef enum:
    HEADER_BYTES = 64
    SUMMED_BYTES = 60
    MAGIC = 0x634E5257
    VERSION = 1
    HEADERS = 0x2000
    ENTRY_HEAD_BYTES = 17
    ENTRY_BYTES = 25
    BODY_BY_REFERENCE_MIN = 16384
    CHUNK_BYTES_MAX = 0x7FFFFFFF

assert len(ENTRY_HEAD) == ENTRY_HEAD_BYTES
assert (HEADER_BYTES, SUMMED_BYTES, MAGIC, VERSION, CHUNK_BYTES_MAX) == (
    chunk_format.HEADER_BYTES, chunk_format.SUMMED_BYTES, chunk_format.MAGIC,
    chunk_format.VERSION, chunk_format.CHUNK_BYTES_MAX,
)
cdef bytes _ENTRY_HEAD = ENTRY_HEAD
cdef bytes _NAME = OFFSET_HEADER.encode()


cdef inline Py_ssize_t padded(Py_ssize_t size) noexcept nogil:
    return (size + 7) & ~<Py_ssize_t>7


cdef inline void put16(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = value >> 8 & 0xFF


cdef inline void put32(uint8_t* p, uint32_t value) noexcept nogil:
    put16(p, value & 0xFFFF)
    put16(p + 2, value >> 16)


cdef inline void put64(uint8_t* p, uint64_t value) noexcept nogil:
    put32(p, <uint32_t>value)
    put32(p + 4, <uint32_t>(value >> 32))


cdef inline uint32_t get16(const uint8_t* p) noexcept nogil:
    return p[0] | <uint32_t>p[1] << 8


cdef inline uint32_t get32(const uint8_t* p) noexcept nogil:
    return get16(p) | get16(p + 2) << 16


cdef class _Dictionary:
    """Distinct texts, numbered as they come."""

    cdef dict numbers
    cdef list texts
    cdef bytes last
    cdef uint32_t last_number
    cdef Py_ssize_t size

    def __init__(self):
        self.numbers = {}
        self.texts = []
        self.last = None
        self.last_number = 0
        self.size = 0

    cdef uint32_t number(self, bytes text) except? 0xFFFFFFFF:
        if text is self.last:
            return self.last_number
        found = self.numbers.get(text)
        if found is None:
            found = len(self.texts)
            self.numbers[text] = found
            self.texts.append(text)
            self.size += PyBytes_GET_SIZE(text)
        self.last = text
        self.last_number = found
        return self.last_number

    cdef void put_ends(self, uint8_t* p) noexcept:
        cdef bytes text
        cdef uint32_t end = 0
        put32(p, 0)
        for text in self.texts:
            p += 4
            end += <uint32_t>PyBytes_GET_SIZE(text)
            put32(p, end)

    cdef void put_texts(self, uint8_t* p) noexcept:
        cdef bytes text
        for text in self.texts:
            memcpy(p, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
            p += PyBytes_GET_SIZE(text)


def encode_chunk(list messages not None, uint64_t first_offset, int64_t timestamp_ms):
    """The pieces of a chunk, to be written one after another."""
    cdef _Dictionary routes = _Dictionary()
    cdef _Dictionary properties = _Dictionary()
    cdef Py_ssize_t count = len(messages)
    cdef Py_ssize_t ends_at = HEADER_BYTES
    cdef Py_ssize_t routes_at = ends_at + padded(4 * (count + 1))
    cdef Py_ssize_t properties_at = routes_at + padded(2 * count)
    cdef Py_ssize_t dictionaries_at = properties_at + padded(2 * count)
    cdef bytes arrays = PyBytes_FromStringAndSize(NULL, dictionaries_at)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(arrays)
    cdef Message message
    cdef Py_ssize_t i
    cdef uint64_t end = 0
    memset(p, 0, dictionaries_at)
    for i in range(count):
        message = messages[i]
        put16(p + routes_at + 2 * i, routes.number(message.route_key))
        put16(p + properties_at + 2 * i, properties.number(message.properties.raw))
        end += <uint64_t>PyBytes_GET_SIZE(message.body)
        put32(p + ends_at + 4 * (i + 1), <uint32_t>end)
    if end > CHUNK_BYTES_MAX or count > 0xFFFF:
        raise OverflowError("a chunk this long cannot have come from anywhere")
    put64(p + 8, first_offset)
    put64(p + 16, <uint64_t>timestamp_ms)
    put32(p + 24, <uint32_t>count)
    put32(p + 44, <uint32_t>end)
    return _assemble(messages, arrays, routes, properties)


cdef list _assemble(list messages, bytes arrays, _Dictionary routes, _Dictionary properties):
    """Dictionaries and bodies behind the arrays, and the rest of the header."""
    cdef Py_ssize_t count = len(messages)
    cdef Py_ssize_t bodies = get32(<const uint8_t*>PyBytes_AS_STRING(arrays) + 44)
    cdef Py_ssize_t at = PyBytes_GET_SIZE(arrays)
    cdef Py_ssize_t property_ends_at = at + padded(4 * (len(routes.texts) + 1))
    cdef Py_ssize_t routes_at = property_ends_at + padded(4 * (len(properties.texts) + 1))
    cdef Py_ssize_t properties_at = routes_at + padded(routes.size)
    cdef Py_ssize_t lead = properties_at + padded(properties.size)
    cdef bint is_copied = bodies < BODY_BY_REFERENCE_MIN * count
    cdef bytes piece = PyBytes_FromStringAndSize(NULL, lead + padded(bodies) * is_copied)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(piece)
    memcpy(p, PyBytes_AS_STRING(arrays), at)
    memset(p + at, 0, lead - at)
    routes.put_ends(p + at)
    properties.put_ends(p + property_ends_at)
    routes.put_texts(p + routes_at)
    properties.put_texts(p + properties_at)
    put32(p, MAGIC)
    put16(p + 4, VERSION)
    put16(p + 6, HEADER_BYTES)
    put32(p + 28, <uint32_t>len(routes.texts))
    put32(p + 32, <uint32_t>len(properties.texts))
    put32(p + 36, <uint32_t>routes.size)
    put32(p + 40, <uint32_t>properties.size)
    put32(p + 48, <uint32_t>(lead + padded(bodies)))
    put32(p + 52, 0)
    return _with_bodies(messages, piece, lead, bodies if is_copied else -bodies)


cdef list _with_bodies(list messages, bytes piece, Py_ssize_t lead, Py_ssize_t bodies):
    """Bodies copied behind the lead, or, with a negative size, as pieces of their own."""
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(piece)
    cdef uint8_t* target = p + lead
    cdef uint32_t checksum
    cdef Message message
    cdef list pieces = [piece]
    cdef bytes padding
    if bodies >= 0:
        for message in messages:
            memcpy(target, PyBytes_AS_STRING(message.body), PyBytes_GET_SIZE(message.body))
            target += PyBytes_GET_SIZE(message.body)
        memset(target, 0, padded(bodies) - bodies)
        checksum = crc32c_update(0, p + HEADER_BYTES, lead + padded(bodies) - HEADER_BYTES)
    else:
        padding = bytes(padded(-bodies) + bodies)
        checksum = crc32c_update(0, p + HEADER_BYTES, lead - HEADER_BYTES)
        for message in messages:
            checksum = crc32c_update(
                checksum, <uint8_t*>PyBytes_AS_STRING(message.body), PyBytes_GET_SIZE(message.body)
            )
            pieces.append(message.body)
        if padding:
            checksum = crc32c_update(checksum, <uint8_t*>PyBytes_AS_STRING(padding), len(padding))
            pieces.append(padding)
    put32(p + 56, checksum)
    put32(p + 60, crc32c_update(0, p, SUMMED_BYTES))
    return pieces


cdef list _texts(
    const uint8_t* base, Py_ssize_t ends_at, Py_ssize_t texts_at, Py_ssize_t count, uint32_t size
):
    """Cut the texts of a part; a chunk may be crafted, so its ends are not believed."""
    cdef list texts = []
    cdef uint32_t start, end
    cdef Py_ssize_t i
    for i in range(count):
        start = get32(base + ends_at + 4 * i)
        end = get32(base + ends_at + 4 * i + 4)
        if start > end or end > size:
            raise MalformedChunk("ends that do not fit")
        texts.append(PyBytes_FromStringAndSize(<const char*>base + texts_at + start, end - start))
    return texts


def decode_chunk(data, Py_ssize_t position):
    """The messages of a chunk that is known to be sound. Raises MalformedChunk."""
    header = read_header(data, position)
    if len(data) - position < header.size:
        raise MalformedChunk("not all of it")
    cdef Py_ssize_t ends_at, route_numbers_at, property_numbers_at, route_ends_at, property_ends_at
    cdef Py_ssize_t routes_at, properties_at, bodies_at, i
    (ends_at, route_numbers_at, property_numbers_at, route_ends_at, property_ends_at, routes_at,
     properties_at, bodies_at, _) = header.parts()
    cdef Py_ssize_t count = header.records
    cdef list routes, blocks, messages = []
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef uint32_t start, end, route, block, bodies_bytes = header.bodies_bytes
    cdef uint32_t routes_count = header.routes, blocks_count = header.properties
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t*>view.buf + position
        routes = _texts(p, route_ends_at, routes_at, routes_count, header.routes_bytes)
        blocks = [
            PropertyBlock(raw) for raw in _texts(p, property_ends_at, properties_at, blocks_count,
                                                 header.properties_bytes)
        ]
        for i in range(count):
            start = get32(p + ends_at + 4 * i)
            end = get32(p + ends_at + 4 * i + 4)
            route = get16(p + route_numbers_at + 2 * i)
            block = get16(p + property_numbers_at + 2 * i)
            if start > end or end > bodies_bytes or route >= routes_count or block >= blocks_count:
                raise MalformedChunk("ends or numbers that do not fit")
            messages.append(Message(
                <bytes>routes[route],
                <PropertyBlock>blocks[block],
                PyBytes_FromStringAndSize(<const char*>p + bodies_at + start, end - start),
            ))
    finally:
        PyBuffer_Release(&view)
    return messages


def with_offsets(list messages not None, uint64_t first_offset):
    """The same, each with the header that tells its consumer where it stands."""
    cdef list told = []
    cdef Message message
    cdef PropertyBlock last = None
    cdef Py_ssize_t place = 0
    cdef bint is_quick = False
    cdef uint64_t offset = first_offset
    for message in messages:
        if message.properties is not last:
            last = message.properties
            place = headers_place(last.raw)
            is_quick = _NAME not in last.raw
        if is_quick:
            told.append(Message(message.route_key, _with_offset(last, place, offset), message.body))
        else:
            raw = with_offset_slowly(last.raw, offset)
            told.append(Message(message.route_key, PropertyBlock(raw), message.body))
        offset += 1
    return told


cdef PropertyBlock _with_offset(PropertyBlock block, Py_ssize_t place, uint64_t offset):
    """A block like this one, with one more header; it has been checked, so this one is sound."""
    cdef const uint8_t* old = <const uint8_t*>PyBytes_AS_STRING(block.raw)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(block.raw)
    cdef Py_ssize_t table = 0
    cdef Py_ssize_t behind = place
    cdef Py_ssize_t i
    if block.flags & HEADERS:
        for i in range(4):
            table = table << 8 | old[place + i]
        behind = place + 4 + table
    cdef Py_ssize_t longer = ENTRY_BYTES + (0 if block.flags & HEADERS else 4)
    cdef bytes raw = PyBytes_FromStringAndSize(NULL, size + longer)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(raw)
    memcpy(p, old, place)
    p[0] = p[0] | (HEADERS >> 8)
    p += place
    for i in range(4):
        p[i] = (table + ENTRY_BYTES) >> (24 - 8 * i) & 0xFF
    memcpy(p + 4, old + behind - table, table)
    p += 4 + table
    memcpy(p, PyBytes_AS_STRING(_ENTRY_HEAD), ENTRY_HEAD_BYTES)
    for i in range(8):
        p[ENTRY_HEAD_BYTES + i] = offset >> (56 - 8 * i) & 0xFF
    memcpy(p + ENTRY_BYTES, old + behind, size - behind)
    cdef PropertyBlock told = PropertyBlock.__new__(PropertyBlock)
    told.raw = raw
    told.flags = block.flags | HEADERS
    told.is_malformed = block.is_malformed
    told.persistent = block.persistent
    told.needs_vetting = block.needs_vetting
    told.priority = block.priority
    told.expiration_ms = block.expiration_ms
    return told
