from warren.wire._codec cimport Message as MessageType

cdef bytes _ROUTE


cpdef bint is_id(MessageType message) except -1
