from libc.stdint cimport uint64_t


cdef class TopologyVersion:
    cdef public uint64_t value
