cimport cython
from warren.cluster.node_replica cimport NodeReplica as NodeReplicaType


@cython.locals(host=NodeReplicaType, payloads=tuple)
cpdef object deliver_frames(dict hosts, bytes body, object came_early)
@cython.locals(host=NodeReplicaType)
cpdef object deliver_held(dict hosts, object copies)
