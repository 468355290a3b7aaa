from warren.wire._codec cimport FrameReader as FrameReaderType


cdef class ClientReader:
    cdef FrameReaderType _frames
    cdef public list deliveries
    cpdef list feed(self, object data)
