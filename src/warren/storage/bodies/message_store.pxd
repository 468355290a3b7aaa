from libc.stdint cimport int64_t
from warren.storage.bodies.file_table cimport FileTable
from warren.storage.bodies.write_buffer cimport WriteBuffer
from warren.wire._codec cimport QueuedMessage as QueuedType


cdef class MessageStore:
    cdef readonly object counters
    cdef readonly bint is_transient
    cdef public int64_t file_bytes
    cdef object _directory
    cdef object _workers
    cdef public WriteBuffer _buffer
    cdef public FileTable _table
    cdef object _housekeeping
    cdef object _compactor
    cdef object _patience
    cdef object _recovery
    cpdef object write(self, QueuedType queued)
    cpdef bint cancel(self, QueuedType queued) except -1
    cpdef object died(self, int64_t file, int64_t offset, int64_t size)
