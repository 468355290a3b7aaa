cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.wire._codec cimport Message as MessageType

cdef bytes _ROUTE


@cython.locals(shift=int)
cpdef object add_fields(
    bytearray fields, int64_t expires_at_ms, int level, uint64_t number, int key_bytes,
)
cpdef bint is_id(MessageType message) except -1
