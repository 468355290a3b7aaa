from warren.queues.backing cimport BackingQueue
from warren.wire._codec cimport Message as MessageType

cpdef bint would_overflow(object limits, BackingQueue backing, MessageType message) except -1
cpdef bint may_drop_at_once(object limits, BackingQueue backing, MessageType message) except -1
cpdef bint overflows(object limits, BackingQueue backing) except -1
