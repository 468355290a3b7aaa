"""The copies of a stream: what is different about them from those of other queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warren.cluster.remote_queue import RemoteQueue
from warren.mirror.replica import Replica
from warren.mirror.stream_master import StreamMaster
from warren.mirror.stream_mirror import StreamMirror
from warren.model.records import QueueRecord
from warren.queues.settings import QueueType
from warren.streams.log import StreamLog
from warren.streams.queue import StreamQueue, limits_of

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors
    from warren.server.mirroring.replica_host import QueueName, ReplicaOfNode


def is_stream(mirrors: Mirrors, name: QueueName) -> bool:
    return mirrors.settings_of(name).queue_type is QueueType.STREAM


def log_of(mirrors: Mirrors, name: QueueName) -> StreamLog:
    """On this node's disk, with what it had there at the start if nobody has asked for it yet."""
    log = mirrors.context.queue_factory.streams[name[0]].log(name[1])
    log.limits = limits_of(mirrors.settings_of(name))
    return log


def make_stream_mirror(host: ReplicaOfNode, copies: Mapping[int, Any]) -> StreamMirror:
    log = copies[0] if copies else log_of(host.mirrors, host.name)
    return StreamMirror(host.replica.me.id, log, host.tell_held, host.disk_failed)


def begin_stream(host: ReplicaOfNode, queue: StreamQueue, replica: Replica) -> StreamMaster:
    """Of a stream that has had no copies yet."""
    master = StreamMaster(queue.log, host.mirrors.new_origin(), replica)
    master.begin()
    return master


def promote_stream(host: ReplicaOfNode, remote: RemoteQueue, replica: Replica) -> StreamMaster:
    mirror = replica.mirror
    assert isinstance(mirror, StreamMirror), "who is promoted has been a mirror"
    master = StreamMaster(mirror.log, remote.origin, replica)
    master.inherit(mirror, 0)
    return master


def stream_copy_of(replica: Replica) -> StreamLog | None:
    """What a replica has, if it is one of a stream."""
    if isinstance(replica.master, StreamMaster):
        return replica.master.log
    return replica.mirror.log if isinstance(replica.mirror, StreamMirror) else None


def mirror_in_sync(mirrors: Mirrors, record: QueueRecord) -> StreamMirror | None:
    """This node's mirror of a stream, if it is counted on."""
    host = mirrors.replicas.get((record.vhost, record.name))
    group = None if host is None else host.replica.record
    if host is None or group is None or host.replica.me.id not in group.insync:
        return None
    mirror = host.replica.mirror
    return mirror if isinstance(mirror, StreamMirror) else None
