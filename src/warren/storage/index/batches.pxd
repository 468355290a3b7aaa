cimport cython
from libc.stdint cimport uint64_t

from warren.flow.credit cimport Credit as CreditType
from warren.storage.disk.committer cimport Batch as BatchType
from warren.storage.index._index_records cimport RecordBuffer as BufferType
from warren.storage.index.queue_index cimport QueueIndex as IndexType

cpdef bint _is_follower(IndexType queue) except -1


cdef class Batches:
    cdef public Py_ssize_t embed_below
    cdef readonly CreditType credit
    cdef readonly CreditType journal_credit
    cdef readonly CreditType store_credit
    cdef readonly object bodies
    cdef readonly object transient_bodies
    cdef readonly object journal
    cdef public object on_done
    cdef public object on_failure
    cdef public uint64_t count
    cdef public uint64_t failures
    cdef public uint64_t bytes_written
    cdef public uint64_t messages_written
    cdef public dict touched
    cdef object _host
    cdef BufferType _buffer
    cdef object _view
    cdef list _dirty
    cdef bint _has_followers
    cdef list _deleted
    cdef list _flight
    cdef list _flight_deleted
    cdef bint _is_scheduled
    cdef bint _is_urgent
    cdef bint _is_timed
    cdef bint _is_failing
    cdef Py_ssize_t _failed_in_a_row
    cdef list _waiters
    cdef list _flight_waiters
    cdef list _mourners
    cdef list _flight_mourners
    cdef list _at_boundary
    cdef object _snapshot
    cdef object _flight_snapshot
    cdef object _mover
    cdef bint _is_closing
    cdef bint _is_sealed
    cdef list _taken_from
    cpdef object mark(self, IndexType queue)
    cpdef object mark_lazily(self, IndexType queue)
    cpdef object hurry(self)
    cdef bint _is_held(self) except -1
    cdef object _schedule(self)
    @cython.locals(queue=IndexType, batch=BatchType)
    cdef BatchType _fill(self)
    cdef object _fix_snapshot(self)
    cdef object _cross_boundary(self)
    cdef object _fail(self, object error)
    cdef object _tell_stores(self, object error)
    cdef object _resolve(self, list promises)
