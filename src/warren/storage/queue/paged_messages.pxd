cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from warren.flow.credit cimport Credit as CreditType
from warren.queues.backing cimport Level
from warren.wire._codec cimport QueuedMessage as QueuedType

cdef uint8_t _VOLATILE
cdef uint8_t _SEGMENTED
cdef Py_ssize_t _OVERHEAD


cdef class PagedMessages(Level):
    cdef public object index
    cdef public bint is_durable
    cdef public bint is_lazy
    cdef public Py_ssize_t keep
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
    cdef public object back
    cdef public Py_ssize_t back_bytes
    cdef public Py_ssize_t charged_bytes
    cdef public Py_ssize_t given_count
    cdef public Py_ssize_t given_bytes
    cdef public uint64_t delta_start
    cdef public uint64_t delta_end
    cdef public Py_ssize_t delta_count
    cdef public Py_ssize_t delta_bytes
    cdef public bint is_loading
    cdef public int64_t read_ahead_bytes
    cdef public bint is_paging
    cdef public uint64_t loaded_below
    cdef public uint64_t epoch
    cpdef object page_out(self)
    cdef bint _has_more_to_choose(self) except -1
    @cython.locals(queued=QueuedType, chosen=list)
    cdef object _choose_leaving(self)
    @cython.locals(queued=QueuedType, leaving=list)
    cdef Py_ssize_t _page_leaving(self, Py_ssize_t room) except -1
    @cython.locals(queued=QueuedType, size=Py_ssize_t)
    cdef Py_ssize_t _page_back(self, Py_ssize_t room) except -1
    cdef object _count_paged(self, QueuedType queued)
    cdef object _give(self, QueuedType queued)
    @cython.locals(size=Py_ssize_t, is_all_given=bint)
    cpdef object append_back(self, QueuedType queued)
    cdef object _charge(self, Py_ssize_t size)
    @cython.locals(owed=Py_ssize_t)
    cpdef object release_credit(self)
    cdef object _stay(self)
    cpdef object refill(self)


cpdef bint is_bodiless(QueuedType queued) noexcept
