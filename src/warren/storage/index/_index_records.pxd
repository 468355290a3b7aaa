from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from warren.wire._codec cimport Message, PropertyBlock, QueuedMessage


cdef class RecordBuffer:
    cdef readonly Py_ssize_t size
    cdef uint32_t _salt
    cdef bytearray _data
    cdef uint8_t* _reserve(self, Py_ssize_t count) except NULL
    cdef int _finish(self, uint8_t* record, Py_ssize_t length) noexcept
    cdef int _publish(self, uint32_t queue_id, QueuedMessage queued) except -1
    cdef int _publish_stored(self, uint32_t queue_id, QueuedMessage queued) except -1
    cpdef object clear(self)
    cpdef object view(self)
    cpdef Py_ssize_t publishes(
        self, uint32_t queue_id, list gathered, Py_ssize_t position, Py_ssize_t bytes_max
    ) except -1
    cpdef Py_ssize_t scatter(
        self, uint32_t queue_id, list journaled, Py_ssize_t position, uint64_t end,
        Py_ssize_t bytes_max
    ) except -1
    cpdef object ack(self, uint32_t queue_id, uint64_t first, uint64_t count, uint64_t body_bytes)
    cpdef object ack_stored(
        self, uint32_t queue_id, uint64_t sequence, uint64_t body_bytes, int64_t file,
        int64_t offset
    )
    cpdef object ack_range(self, uint32_t queue_id, uint64_t first, uint64_t end)
    cpdef object queue_named(self, uint32_t queue_id, bytes name)
    cpdef object queue_deleted(self, uint32_t queue_id)
    cpdef object file_started(self, uint64_t number, uint64_t previous, uint64_t previous_end)


cdef class Record:
    cdef readonly uint8_t kind
    cdef readonly uint8_t flags
    cdef readonly uint32_t queue_id
    cdef readonly uint64_t sequence
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t length
    cdef readonly uint64_t count
    cdef readonly uint64_t size
    cdef readonly int64_t expires_at_ms
    cdef readonly int64_t store_file
    cdef readonly int64_t store_offset


cdef class EntryReader:
    cdef readonly Py_ssize_t position
    cdef readonly uint64_t passed
    cdef readonly Py_ssize_t damaged
    cdef public Py_ssize_t left
    cdef uint32_t _salt
    cdef uint64_t _base
    cdef bytes _wanted
    cdef Message _before
    cpdef list read(self, bytes data, Py_ssize_t start, Py_ssize_t bytes_max)
    cdef bint _is_wanted(self, Record record) noexcept
