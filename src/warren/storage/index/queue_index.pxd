cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from warren.flow.credit cimport Credit as CreditType
from warren.storage.index._index_records cimport RecordBuffer as BufferType
from warren.storage.index.segment_entry cimport in_state, weigh_all
from warren.wire._codec cimport (
    Message as MessageType, PropertyBlock as PropertiesType, QueuedMessage as QueuedType,
)

cdef uint8_t _VOLATILE
cdef uint8_t _GATHERED
cdef uint8_t _WRITING
cdef uint8_t _JOURNALED
cdef uint8_t _SEGMENTED
cdef uint8_t _DEAD
cdef uint8_t _SCATTERING
cdef uint8_t _STORED
cdef int _EMBEDDED
cdef int _TRANSIENT_FILE_MIN
cdef int _SEGMENT_SHIFT
cdef uint64_t _SEGMENT_MASK
cdef Py_ssize_t _DEAD_MIN
cdef Py_ssize_t _ENTRY_BYTES


cdef class QueueIndex:
    cdef readonly uint32_t queue_id
    cdef readonly str name
    cdef readonly Py_ssize_t embed_below
    cdef object _dirty
    cdef readonly CreditType credit
    cdef readonly CreditType journal_credit
    cdef readonly CreditType store_credit
    cdef public object debtor
    cdef readonly object bodies
    cdef readonly object transient_bodies
    cdef public list gathered
    cdef public list gathered_stored
    cdef public object lone
    cdef Py_ssize_t gathered_weight
    cdef readonly Py_ssize_t stored_weight
    cdef Py_ssize_t writing_weight
    cdef readonly Py_ssize_t writing_stored_weight
    cdef public Py_ssize_t gathered_dead
    cdef public list writing
    cdef public list writing_acks
    cdef public list writing_ranges
    cdef public list journaled
    cdef public Py_ssize_t journaled_dead
    cdef public list scattering
    cdef public list acks
    cdef public list ranges
    cdef uint64_t _run_first
    cdef uint64_t _run_end
    cdef uint64_t _run_bytes
    cdef bint _run_is_segmented
    cdef public dict segments
    cdef public dict acked_segments
    cdef public list dead_segments
    cdef public list writing_dead
    cdef public list removable
    cdef public list segments_to_purge
    cdef public uint64_t next_sequence
    cdef public uint64_t segmented_below
    cdef public object on_segmented
    cdef public object on_stored
    cdef public bint has_transients
    cdef public bint is_ordered
    cdef public bint is_dirty
    cdef bint is_urgent
    cdef public bint is_patient
    cdef public bint is_deleted
    cdef public bint has_directory
    cdef public uint64_t messages_written
    cdef public uint64_t messages_read
    cdef public int64_t named_in
    cdef public uint64_t journaled_from
    cdef public uint64_t scattering_from
    cdef public uint64_t redelivered_below
    cdef public list delivered
    cdef public bytes blob
    cdef public object reader
    @cython.locals(
        message=MessageType, properties=PropertiesType, size=Py_ssize_t, sequence=uint64_t
    )
    cpdef object publish(self, QueuedType queued)
    @cython.locals(
        queued=QueuedType, state=uint8_t, sequence=uint64_t, released=Py_ssize_t
    )
    cpdef object ack(self, list run)
    cdef object _publish_late(self, uint64_t sequence)
    @cython.locals(weight=Py_ssize_t)
    cdef object _publish_embedded(self, QueuedType queued)
    cdef object _publish_stored(self, QueuedType queued)
    cpdef bint is_stored(self, MessageType message) except -1
    cpdef bint is_transient(self, QueuedType queued) except -1
    @cython.locals(message=MessageType)
    cpdef object write_out(self, QueuedType queued)
    cpdef object enter_stored(self, QueuedType queued)
    cdef object _gather_body(self, QueuedType queued)
    cdef object _gather_entry(self, QueuedType queued)
    cdef object _charge_store(self, QueuedType queued)
    cdef object _charge(self, QueuedType queued, object debtor)
    cdef object _forget_dead(self)
    cdef object _cancel(self, QueuedType queued)
    cdef object _answer(self, QueuedType queued)
    cdef bint _ack_transient(self, QueuedType queued, uint8_t state) except -1
    cdef object _ack_stored(self, QueuedType queued, uint8_t state)
    @cython.locals(first=uint64_t, end=uint64_t, body_bytes=uint64_t)
    cpdef object close_run(self)
    cpdef object become_dirty(self)
    cpdef object commit(self)
    cdef object _become_lazily_dirty(self)
    cdef object _merge_stored(self)
    @cython.locals(queue_id=uint32_t, position=Py_ssize_t, file=Py_ssize_t)
    cpdef bint encode(self, BufferType buffer, Py_ssize_t bytes_max) except -1
    cdef object _lone_written(self)
    cdef object _release_written(self)
    @cython.locals(queued=QueuedType, has_bodies=bint)
    cpdef object written(self, uint64_t journal_number)
    @cython.locals(queued=QueuedType, message=MessageType)
    cpdef object unwritten(self)
    @cython.locals(queued=QueuedType)
    cpdef object refuse(self)
