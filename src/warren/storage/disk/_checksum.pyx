"""CRC-32C at the speed of memory: the processor's own instruction where it has one.

Which of the two ways is taken is decided once, when the module is loaded, by asking the processor:
a binary built here may run on another machine. The table way takes eight bytes at a step, from
eight tables ("slicing by 8").

The instruction takes one step per cycle but three cycles to give its result, which the next step
waits for. So three stretches are summed side by side, and joined by tables of what it does to a
remainder to be followed by as many zeros as the next stretch is long.
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
    static uint32_t warren_crc32c_long[4][256], warren_crc32c_short[4][256];
    #define WARREN_CRC32C_LONG 2048
    #define WARREN_CRC32C_SHORT 128

    /* What `size` zero bytes make of a remainder: linear, so 32 remainders tell all. */
    static void warren_crc32c_fill_shift(uint32_t shift[4][256], size_t size) {
        static const uint8_t zeros[WARREN_CRC32C_LONG];
        for (int byte = 0; byte < 4; byte++)
            for (int bit = 0; bit < 8; bit++) {
                uint32_t moved =
                    warren_crc32c_by_table((uint32_t)1 << (byte * 8 + bit), zeros, size);
                for (int value = 0; value < 256; value++)
                    if (value >> bit & 1)
                        shift[byte][value] ^= moved;
            }
    }

    static inline uint32_t warren_crc32c_shift(uint32_t shift[4][256], uint32_t crc) {
        return shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF]
            ^ shift[2][crc >> 16 & 0xFF] ^ shift[3][crc >> 24];
    }

    __attribute__((target("sse4.2")))
    static inline uint32_t warren_crc32c_three(
        uint32_t crc, const uint8_t *p, size_t size, uint32_t shift[4][256]
    ) {
        uint64_t first = crc, second = 0, third = 0, word;
        for (const uint8_t *end = p + size; p < end; p += 8) {
            memcpy(&word, p, 8);
            first = _mm_crc32_u64(first, word);
            memcpy(&word, p + size, 8);
            second = _mm_crc32_u64(second, word);
            memcpy(&word, p + 2 * size, 8);
            third = _mm_crc32_u64(third, word);
        }
        crc = warren_crc32c_shift(shift, (uint32_t)first) ^ (uint32_t)second;
        return warren_crc32c_shift(shift, crc) ^ (uint32_t)third;
    }

    __attribute__((target("sse4.2")))
    static uint32_t warren_crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t n) {
        const size_t longer = 3 * WARREN_CRC32C_LONG, shorter = 3 * WARREN_CRC32C_SHORT;
        for (; n >= longer; p += longer, n -= longer)
            crc = warren_crc32c_three(crc, p, WARREN_CRC32C_LONG, warren_crc32c_long);
        for (; n >= shorter; p += shorter, n -= shorter)
            crc = warren_crc32c_three(crc, p, WARREN_CRC32C_SHORT, warren_crc32c_short);
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
        warren_crc32c_fill_shift(warren_crc32c_long, WARREN_CRC32C_LONG);
        warren_crc32c_fill_shift(warren_crc32c_short, WARREN_CRC32C_SHORT);
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
