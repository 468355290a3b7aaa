"""Records of journal and segments, encoded and scanned at the speed of copying memory.

The plain twin, `_index_records_py.py`, says what is done; `index_format.py` what it looks like.
What is done here only for speed: records are written straight into one growing piece of memory and
summed there, and messages read back share route keys and property blocks with the one before them
if those are the same, as those of one publisher are.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, UINT64_MAX, uint64_t
from libc.string cimport memcmp, memcpy, memset

from warren.storage.disk._checksum cimport crc32c_update
from warren.wire._codec cimport Message, PropertyBlock, QueuedMessage
from warren.storage.index import index_format, states


cdef enum:
    KIND_PUBLISH = 1
    KIND_ACK = 2
    KIND_ACK_RANGE = 3
    KIND_QUEUE = 4
    KIND_DELETE = 5
    KIND_FILE_START = 6

    FLAG_TRANSIENT = 1
    FLAG_STORED = 2

    HEAD_BYTES = 24
    PUBLISH_BYTES = 40  # with the head
    ACK_BYTES = 40
    NUMBER_BYTES = 32
    LOCATION_BYTES = 16
    RECORD_BYTES_MAX = 1 << 28

    BUFFER_BYTES_MIN = 65536

    STATE_GATHERED = 1
    STATE_WRITING = 2
    STATE_JOURNALED = 3
    STATE_SEGMENTED = 4
    STATE_SCATTERING = 6

    NO_STORE_FILE = -1
    STORE_FILE_MAX = 0x7FFFFFFF
    TRANSIENT_FILE_MIN = 1 << 30

EMBEDDED = NO_STORE_FILE

# C has to know these numbers when it is compiled; they are decided by index_format and states.
assert (KIND_PUBLISH, KIND_ACK, KIND_ACK_RANGE, KIND_QUEUE, KIND_DELETE, KIND_FILE_START) == (
    index_format.PUBLISH, index_format.ACK, index_format.ACK_RANGE, index_format.QUEUE,
    index_format.DELETE, index_format.FILE_START,
)
assert (FLAG_TRANSIENT, FLAG_STORED) == (index_format.TRANSIENT, index_format.STORED)
assert HEAD_BYTES == index_format.HEAD.size
assert PUBLISH_BYTES == HEAD_BYTES + index_format.PUBLISH_FIELDS.size
assert ACK_BYTES == HEAD_BYTES + index_format.ACK_FIELDS.size
assert NUMBER_BYTES == HEAD_BYTES + index_format.NUMBER.size
assert LOCATION_BYTES == index_format.LOCATION.size
assert STORE_FILE_MAX == index_format.STORE_FILE_MAX
assert UINT64_MAX == index_format.SEQUENCE_MAX + 1
assert RECORD_BYTES_MAX == index_format.RECORD_BYTES_MAX
assert (STATE_GATHERED, STATE_WRITING, STATE_JOURNALED, STATE_SEGMENTED, STATE_SCATTERING) == (
    states.GATHERED, states.WRITING, states.JOURNALED, states.SEGMENTED, states.SCATTERING,
)
assert TRANSIENT_FILE_MIN == states.TRANSIENT_FILE_MIN


cdef inline void put16(uint8_t* p, uint16_t value) noexcept nogil:
    p[0] = <uint8_t>value
    p[1] = <uint8_t>(value >> 8)


cdef inline void put32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>value
    p[1] = <uint8_t>(value >> 8)
    p[2] = <uint8_t>(value >> 16)
    p[3] = <uint8_t>(value >> 24)


cdef inline void put64(uint8_t* p, uint64_t value) noexcept nogil:
    put32(p, <uint32_t>value)
    put32(p + 4, <uint32_t>(value >> 32))


cdef inline uint16_t get16(const uint8_t* p) noexcept nogil:
    return <uint16_t>(p[0] | (p[1] << 8))


cdef inline uint32_t get32(const uint8_t* p) noexcept nogil:
    return p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)


cdef inline uint64_t get64(const uint8_t* p) noexcept nogil:
    return get32(p) | (<uint64_t>get32(p + 4) << 32)


cdef inline Py_ssize_t aligned(Py_ssize_t position) noexcept nogil:
    return (position + 7) & ~<Py_ssize_t>7


cdef inline void put_head(
    uint8_t* p, uint8_t kind, uint8_t flags, uint32_t queue_id, uint64_t sequence
) noexcept nogil:
    p[8] = kind
    p[9] = flags
    put16(p + 10, 0)
    put32(p + 12, queue_id)
    put64(p + 16, sequence)


include "_index_buffer.pxi"
include "_index_scan.pxi"
