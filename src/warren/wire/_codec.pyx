"""The wire kernel: frames to messages and messages to frames, at a few dozen nanoseconds each.

`_codec_py.py` is the same thing in plain Python, file for file, and the place to read what this
code means; a property test feeds both with the same bytes and compares. The parts are included, not
imported, so that what they share can be inlined. What is done here only for speed:

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
    BASIC_RETURN = 0x003C0032
    BASIC_DELIVER = 0x003C003C
    BASIC_GET_OK = 0x003C0047
    BASIC_ACK = 0x003C0050
    BASIC_NACK = 0x003C0078
    CLASS_BASIC = 60
    ACK_BYTES = 13
    CONTENT_HEADER_FIXED_BYTES = 12


cdef inline uint16_t read16(const uint8_t* p) noexcept nogil:
    return <uint16_t>((p[0] << 8) | p[1])


cdef inline uint32_t read32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t read64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>read32(p) << 32) | read32(p + 4)


include "_values.pxi"
include "_properties.pxi"
include "_reader.pxi"
include "_output.pxi"
