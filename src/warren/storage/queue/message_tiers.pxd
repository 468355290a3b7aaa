cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from warren.flow.credit cimport Credit as CreditType
from warren.queues.backing cimport Level
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType

cdef uint8_t _JOURNALED
cdef uint8_t _SCATTERING
cdef uint8_t _SEGMENTED
cdef uint8_t _STORED
cdef int _EMBEDDED
cdef int _TRANSIENT_FILE_MIN
cdef Py_ssize_t _OVERHEAD
cdef Py_ssize_t _PLACE


cdef class MessageTiers(Level):
    cdef public object index
    cdef public bint is_durable
    cdef public bint is_lazy
    cdef public bint is_patient
    cdef public Py_ssize_t keep_bytes
    cdef public object on_loaded
    cdef object _make_index
    cdef object _reader
    cdef public CreditType credit
    cdef public object flow
    cdef public Py_ssize_t unacked_bytes
    cdef public Py_ssize_t persistent_count
    cdef public Py_ssize_t persistent_bytes
    cdef public Py_ssize_t unacked_persistent_count
    cdef public Py_ssize_t unacked_persistent_bytes
    cdef public list returned
    cdef public object front
    cdef public list leaving
    cdef public Py_ssize_t leaving_bytes
    cdef public object q3
    cdef public object q2
    cdef public Py_ssize_t places
    cdef public Py_ssize_t places_bytes
    cdef public object back
    cdef public Py_ssize_t back_bytes
    cdef public Py_ssize_t charged_bytes
    cdef public Py_ssize_t given_count
    cdef public Py_ssize_t given_bytes
    cdef public uint64_t delta_start
    cdef public uint64_t delta_end
    cdef public Py_ssize_t delta_count
    cdef public Py_ssize_t delta_bytes
    cdef public Py_ssize_t front_bodiless
    cdef public Py_ssize_t front_bodiless_bytes
    cdef public Py_ssize_t back_bodiless
    cdef public Py_ssize_t back_bodiless_bytes
    cdef public Py_ssize_t beta_count
    cdef public bint is_loading
    cdef public bint is_filling
    cdef public bint is_recalling
    cdef public int64_t read_ahead_bytes
    cdef public bint is_paging
    cdef public uint64_t loaded_below
    cdef public uint64_t epoch
    cpdef object page_out(self)
    cpdef object _body_stored(self)
    @cython.locals(message=MessageType)
    cdef bint is_persistent(self, QueuedType queued) noexcept
    cdef object _count_paged(self, QueuedType queued)
    cdef object _drop_body(self, QueuedType queued)
    cdef object _count_place(self, QueuedType queued)
    cpdef object uncount_place(self, QueuedType queued)
    cpdef object count_bodiless(self, QueuedType queued)
    cpdef object uncount_bodiless(self, QueuedType queued)
    cdef object _uncount_beta(self, QueuedType queued)
    @cython.locals(owed=Py_ssize_t)
    cpdef object release_credit(self)
    cdef object _stay(self)
    cpdef object refill(self)
    @cython.locals(queued=QueuedType)
    cpdef object take_places(self, Py_ssize_t room)
    @cython.locals(away=Py_ssize_t, ahead=Py_ssize_t, later=Py_ssize_t)
    cpdef Py_ssize_t ahead_bytes(self) except? -1


@cython.locals(message=MessageType)
cpdef bint is_bodiless(QueuedType queued) noexcept
cpdef bint is_body_out(QueuedType queued) noexcept
