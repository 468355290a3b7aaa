"""The beginning of a record (twin: `_record_head_py.py`; format: `record_format.py`)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from warren.storage.disk._checksum cimport crc32c_update
from warren.wire._codec cimport Message
from warren.storage.bodies import record_format

cdef enum:
    HEADER_BYTES = 32
    SUMMED_BYTES = 28

assert (HEADER_BYTES, SUMMED_BYTES) == (
    record_format.RECORD_HEADER_BYTES, record_format.SUMMED_BYTES
)


cdef inline void put_u32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = value >> 8 & 0xFF
    p[2] = value >> 16 & 0xFF
    p[3] = value >> 24


def encode_head(
    Message message not None, uint32_t references, uint32_t file, uint32_t offset, uint32_t salt
):
    """A record of `message` at this location, up to its body."""
    cdef bytes key = message.route_key
    cdef bytes properties = message.properties.raw
    cdef bytes body = message.body
    cdef Py_ssize_t key_bytes = len(key)
    cdef Py_ssize_t lead_bytes = key_bytes + len(properties)
    cdef bytes head = PyBytes_FromStringAndSize(NULL, HEADER_BYTES + lead_bytes)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(head)
    cdef uint8_t* lead = p + HEADER_BYTES
    cdef uint32_t checksum
    if key_bytes > 0xFFFF or lead_bytes + len(body) > 0xFFFFFFFF:
        raise OverflowError("a message this long cannot have come from anywhere")
    memcpy(lead, PyBytes_AS_STRING(key), key_bytes)
    memcpy(lead + key_bytes, PyBytes_AS_STRING(properties), lead_bytes - key_bytes)
    checksum = crc32c_update(0, lead, lead_bytes)
    checksum = crc32c_update(checksum, <const uint8_t*>PyBytes_AS_STRING(body), len(body))
    put_u32(p, <uint32_t>(lead_bytes + len(body)))
    put_u32(p + 4, checksum)
    put_u32(p + 8, references)
    put_u32(p + 12, file)
    put_u32(p + 16, offset)
    put_u32(p + 20, <uint16_t>key_bytes)
    put_u32(p + 24, <uint32_t>(lead_bytes - key_bytes))
    put_u32(p + SUMMED_BYTES, crc32c_update(salt, p, SUMMED_BYTES))
    return head
