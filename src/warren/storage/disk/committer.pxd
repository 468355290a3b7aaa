cdef class Batch:
    cdef public list writes
    cdef public list syncs
    cdef public list placed


cdef class LoopSide:
    cdef object _loop
    cdef object _done
    cdef object _drained
    cdef bint _is_closed
    cpdef object submit(self, Batch batch, object done)
    cpdef object _start(self, Batch batch)
    cpdef object _stop(self)


cdef class ThreadCommitter(LoopSide):
    cdef object _disk
    cdef object _batches
    cdef object _thread


cdef class NativeCommitter(LoopSide):
    cdef object _thread
    cpdef object _start(self, Batch batch)
