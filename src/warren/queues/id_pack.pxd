cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.model.deduplication cimport Remembered
from warren.queues.fate cimport Fate
from warren.queues.id_records cimport add_fields
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType

cdef Py_ssize_t _HEAD_BYTES
cdef Py_ssize_t _EXTRA_BYTES
cdef Py_ssize_t _LONGEST_BYTES


cdef class IdPack:
    cdef public int64_t number
    cdef public bint is_persistent
    cdef public Py_ssize_t left
    cdef public QueuedType record
    cdef public bint is_full
    cdef public object origin
    cdef Py_ssize_t _bytes
    cdef Py_ssize_t _bytes_max
    cdef list _fates
    @cython.locals(entry=Remembered)
    cpdef object add(self, Fate fate)
    @cython.locals(entry=Remembered, fate=Fate, keys=list, fields=bytearray)
    cpdef MessageType message(self)
    @cython.locals(fate=Fate, fates=list)
    cpdef object confirmed(self, uint64_t sequence)
    @cython.locals(fate=Fate, fates=list)
    cpdef object rejected(self, uint64_t sequence)
