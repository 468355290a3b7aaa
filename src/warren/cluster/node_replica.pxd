from libc.stdint cimport int64_t
from warren.cluster.effects cimport Effects as EffectsType
from warren.cluster.gathering cimport Gathering as GatheringType
from warren.cluster.held_news cimport HeldNews as HeldNewsType
from warren.replication.replica cimport Replica as ReplicaType


cdef class ReplicaParts:
    cdef readonly object view
    cdef readonly EffectsType effects
    cdef readonly object files
    cdef readonly object leadership
    cdef readonly object sync
    cdef readonly GatheringType gathering
    cdef readonly HeldNewsType held_news
    cdef readonly object stories


cdef class NodeReplica:
    cdef readonly object name
    cdef readonly ReplicaType replica
    cdef public object sync
    cdef public bint is_abandoned
    cdef public set invited
    cdef public set expelled
    cdef public bint is_dissolving
    cdef object _registry
    cdef ReplicaParts _parts
    cdef bint _is_disk_refusing
    cdef object _told_record
    cdef object _told_leader
    cdef int64_t _refused_epoch
    cpdef object send(self, object to, object frame, tuple payloads)
    cpdef object tell_held(self, int64_t number, bint is_awaited)
    cpdef object flush_due(self, object replica, int urgency)
