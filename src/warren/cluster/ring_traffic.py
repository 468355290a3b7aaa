"""Traffic of rings: hands what a link brings for mirrored queues to their replicas on this node.

These are the loops that run for each batch of each mirrored queue, so they are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from warren.cluster.link.control import HeldCopy
from warren.cluster.node_replica import NodeReplica
from warren.replication.gm.frames import Frame, Payload, decode_frames


def deliver_frames(
    hosts: Mapping[str, NodeReplica],
    body: bytes,
    came_early: Callable[[Frame, tuple[Payload, ...]], None],
) -> None:
    """Deliver frames to replicas by uid. Raises MalformedFrame where one cannot be read.

    `came_early` is called with frames of groups that have no replica here.
    """
    for frame, payloads in decode_frames(body):
        host = hosts.get(frame.uid)
        if host is None:
            came_early(frame, payloads)
            continue
        host.replica.frame_arrived(frame, payloads)
        if host.sync is not None:
            host.sync.synchroniser.wake()  # the ring may have room again


def deliver_held(hosts: Mapping[str, NodeReplica], copies: Iterable[HeldCopy]) -> None:
    """Tell masters on this node how far their mirrors have come."""
    for copy in copies:
        host = hosts.get(copy.uid)
        if host is not None:
            host.replica.held(copy.member, copy.epoch, copy.number)
            if host.sync is not None:
                host.sync.synchroniser.wake()
