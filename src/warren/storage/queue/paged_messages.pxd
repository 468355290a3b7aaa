cimport cython
from libc.stdint cimport uint8_t
from warren.storage.queue.message_tiers cimport MessageTiers, is_bodiless, is_body_out
from warren.wire._codec cimport QueuedMessage as QueuedType

cdef uint8_t _VOLATILE
cdef uint8_t _SEGMENTED
cdef uint8_t _STORED
cdef Py_ssize_t _OVERHEAD
cdef Py_ssize_t _PLACE


cdef class PagedMessages(MessageTiers):
    cpdef object page_out(self)
    cpdef object _body_stored(self)
    cdef bint _has_more_to_choose(self) except -1
    @cython.locals(
        queued=QueuedType, chosen=list, surplus=Py_ssize_t, steps=Py_ssize_t, places=Py_ssize_t
    )
    cdef object _choose_leaving(self)
    @cython.locals(queued=QueuedType)
    cdef bint _may_choose(self, list chosen) except -1
    @cython.locals(queued=QueuedType, leaving=list, permitted=Py_ssize_t)
    cdef Py_ssize_t _page_leaving(self, Py_ssize_t room) except -1
    @cython.locals(queued=QueuedType, size=Py_ssize_t, permitted=Py_ssize_t)
    cdef Py_ssize_t _page_back(self, Py_ssize_t room) except -1
    cdef Py_ssize_t _permitted_places(self) except -1
    @cython.locals(permitted=Py_ssize_t, is_paged=bint)
    cdef Py_ssize_t _page_places(self, Py_ssize_t room) except -1
    @cython.locals(queued=QueuedType)
    cdef bint _page_newest_of_q3(self) except -1
    @cython.locals(queued=QueuedType)
    cdef bint _page_oldest_of_q2(self) except -1
    @cython.locals(queued=QueuedType)
    cdef object _enter_stored(self, object places)
    cdef object _page_before_delta(self, QueuedType queued)
    cdef object _page_after_delta(self, QueuedType queued)
    cdef object _give(self, QueuedType queued)
    @cython.locals(size=Py_ssize_t, is_all_given=bint)
    cpdef object append_back(self, QueuedType queued)
    cdef object _charge(self, Py_ssize_t size)
