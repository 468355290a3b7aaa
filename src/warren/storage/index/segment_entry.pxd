cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from warren.wire._codec cimport QueuedMessage as QueuedType

cdef uint8_t _DEAD
cdef uint8_t _SCATTERING
cdef uint8_t _SEGMENTED
cdef int _EMBEDDED
cdef int _TRANSIENT_FILE_MIN
cdef uint64_t _PLACE_MASK
cdef int _SEGMENT_SHIFT
cdef Py_ssize_t _ENTRY_BYTES


@cython.locals(
    queued=QueuedType, live=bytearray, transient=bytearray, stored=bytearray, place=uint64_t,
    at=Py_ssize_t, bit=uint8_t, embedded_bytes=int64_t, stored_bytes=int64_t, weight=Py_ssize_t
)
cpdef Py_ssize_t enter(object segment, list entries) except -1

@cython.locals(queued=QueuedType, weight=Py_ssize_t)
cpdef Py_ssize_t weigh(list entries) except -1

@cython.locals(queued=QueuedType, weight=Py_ssize_t, stored=list)
cpdef tuple discard_embedded(list entries)

@cython.locals(queued=QueuedType)
cpdef object leave(list entries, uint8_t state)

@cython.locals(queued=QueuedType, kept=list)
cpdef list in_state(list entries, uint8_t state)

@cython.locals(queued=QueuedType, weight=Py_ssize_t)
cpdef Py_ssize_t weigh_all(list entries) except -1

@cython.locals(
    queued=QueuedType, found=dict, bits=bytearray, body_bytes=int64_t, segment=int64_t,
    number=int64_t, place=uint64_t
)
cpdef dict places_by_segment(list entries)

cdef object _note_places(dict found, int64_t segment, bytearray bits, int64_t body_bytes)

@cython.locals(queued=QueuedType)
cpdef object note_messages(dict messages, list entries)

@cython.locals(queued=QueuedType, kept=list)
cpdef list embedded_of(list entries)

@cython.locals(queued=QueuedType, found=list)
cpdef list messages_of(list entries, dict messages)
