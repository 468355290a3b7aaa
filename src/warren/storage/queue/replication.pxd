cimport cython
from libc.stdint cimport int64_t, uint64_t
from warren.storage.queue.message_tiers cimport is_bodiless
from warren.storage.queue.variable_queue cimport VariableQueue as VariableQueueType
from warren.wire._codec cimport Message as MessageType, QueuedMessage as QueuedType

cdef Py_ssize_t _OVERHEAD


@cython.locals(queued=QueuedType)
cpdef int put_at(
    VariableQueueType queue, uint64_t sequence, MessageType message, int64_t expires_at_ms,
    object publisher,
) except -1
@cython.locals(taken=Py_ssize_t, sequence=uint64_t, place=Py_ssize_t, message=MessageType)
cpdef Py_ssize_t put_run(
    VariableQueueType queue, uint64_t first, list messages, tuple expiries, object publisher
) except -1
@cython.locals(queued=QueuedType)
cpdef int put_older(
    VariableQueueType queue, uint64_t sequence, MessageType message, int64_t expires_at_ms,
    object publisher,
) except -1
@cython.locals(queued=QueuedType)
cpdef object mark_all(VariableQueueType queue)
@cython.locals(end=uint64_t, gone=list, paged_out=Py_ssize_t, queued=QueuedType, sizes=Py_ssize_t)
cpdef object remove(
    VariableQueueType queue, uint64_t first, Py_ssize_t count, Py_ssize_t body_bytes
)
@cython.locals(gone=list, queued=QueuedType)
cdef list _take_from_memory(VariableQueueType queue, uint64_t first, uint64_t end)
@cython.locals(queued=QueuedType, position=Py_ssize_t)
cdef Py_ssize_t _take(object messages, uint64_t first, uint64_t end, list gone) except -1
@cython.locals(queued=QueuedType)
cdef object _count_gone(VariableQueueType queue, list gone)
