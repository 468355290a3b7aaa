"""CRC-32C at the speed of memory: the processor's own instruction where it has one.

Which of the two ways is taken is decided once, when the module is loaded, by asking the processor:
a binary built here may run on another machine. The table way takes eight bytes at a step, from
eight tables ("slicing by 8").
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    typedef uint32_t (*warren_crc32c_function)(uint32_t, const uint8_t *, size_t);

    static uint32_t warren_crc32c_table[8][256];

    static void warren_crc32c_fill_table(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t rest = byte;
            for (int bit = 0; bit < 8; bit++)
                rest = (rest >> 1) ^ ((rest & 1) ? 0x82F63B78u : 0);
            warren_crc32c_table[0][byte] = rest;
        }
        for (int slice = 1; slice < 8; slice++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t before = warren_crc32c_table[slice - 1][byte];
                warren_crc32c_table[slice][byte] =
                    (before >> 8) ^ warren_crc32c_table[0][before & 0xFF];
            }
    }

    static uint32_t warren_crc32c_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        uint32_t (*t)[256] = warren_crc32c_table;
        for (; n >= 8; p += 8, n -= 8) {
            crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8
                | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
            crc = t[7][crc & 0xFF] ^ t[6][(crc >> 8) & 0xFF] ^ t[5][(crc >> 16) & 0xFF]
                ^ t[4][crc >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
        }
        for (; n; p++, n--)
            crc = (crc >> 8) ^ t[0][(crc ^ *p) & 0xFF];
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    __attribute__((target("sse4.2")))
    static uint32_t warren_crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t wide = crc, word;
        for (; n >= 8; p += 8, n -= 8) {
            memcpy(&word, p, 8);
            wide = _mm_crc32_u64(wide, word);
        }
        crc = (uint32_t)wide;
        for (; n; p++, n--)
            crc = _mm_crc32_u8(crc, *p);
        return crc;
    }
    static warren_crc32c_function warren_crc32c_choose(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2")
            ? warren_crc32c_by_instruction : warren_crc32c_by_table;
    }
    #else
    static warren_crc32c_function warren_crc32c_choose(void) {
        return warren_crc32c_by_table;
    }
    #endif
    """
    ctypedef uint32_t (*Function "warren_crc32c_function")(
        uint32_t, const uint8_t*, size_t
    ) noexcept nogil
    void fill_table "warren_crc32c_fill_table"() noexcept
    uint32_t by_table "warren_crc32c_by_table"(uint32_t, const uint8_t*, size_t) noexcept nogil
    Function choose "warren_crc32c_choose"() noexcept


fill_table()
cdef Function fastest = choose()


cdef uint32_t crc32c_update(uint32_t value, const uint8_t* data, size_t size) noexcept nogil:
    """The checksum of what `value` is the checksum of, followed by `data`."""
    return fastest(value ^ 0xFFFFFFFFu, data, size) ^ 0xFFFFFFFFu


cdef uint32_t checksum_of(object data, uint32_t value, Function function) except? 0:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return function(value ^ 0xFFFFFFFFu, <const uint8_t*>view.buf, view.len) ^ 0xFFFFFFFFu
    finally:
        PyBuffer_Release(&view)


def crc32c(data, uint32_t value=0):
    return checksum_of(data, value, fastest)


def crc32c_by_table(data, uint32_t value=0):
    """What machines without the instruction compute, for tests on those that have it."""
    return checksum_of(data, value, by_table)


def has_instruction():
    return fastest is not by_table
