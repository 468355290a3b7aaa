cimport cython
from libc.stdint cimport int64_t
from warren.storage.bodies.store_files cimport StoreFile
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType


cdef class Stretch:
    cdef public StoreFile file
    cdef public int64_t start
    cdef public list pieces
    @cython.locals(file=StoreFile, offset=int64_t, head=bytes, body=bytes)
    cpdef int64_t add(self, MessageType message, int64_t references) except -1


cdef class WriteBuffer:
    cdef public dict waiting
    cdef public int64_t waiting_bytes
    cdef public dict flight
    cdef public list stretches
    cdef dict _placed
    @cython.locals(message=MessageType)
    cpdef object write(self, QueuedType queued)
    @cython.locals(message=MessageType)
    cpdef bint cancel(self, QueuedType queued) except -1
    @cython.locals(stretch=Stretch, message=MessageType, offset=int64_t, queued=QueuedType)
    cpdef StoreFile take(self, StoreFile file, int64_t file_bytes, object successor)
