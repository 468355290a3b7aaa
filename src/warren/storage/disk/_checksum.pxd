from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t crc32c_update(uint32_t value, const uint8_t* data, size_t size) noexcept nogil
