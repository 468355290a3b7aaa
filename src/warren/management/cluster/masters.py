"""Where a queue is, and who answers for it: a mirrored one may have moved since it was declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.cluster.masters import is_masterless
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue

# What only clusters need is not loaded by a node alone: it would be 3 MiB of its memory.
if TYPE_CHECKING:
    from warren.cluster.synchronisation import Synchronisation
    from warren.replication.stream.stream_mirror import StreamMirror
    from warren.server.node import Node


def master_node_of(queue: AbstractQueue, node: Node) -> str:
    """The name of a node; empty while a mirrored queue is between two masters."""
    if isinstance(queue, Queue) or node.cluster is None:
        return node.config.name
    return node.cluster.view.master_of(queue.record)


def is_between_masters(queue: AbstractQueue, node: Node) -> bool:
    """A mirrored queue that is without one for a moment."""
    if node.cluster is None:
        return False
    is_mirrored = (queue.record.vhost, queue.record.name) in node.cluster.view.groups
    return is_mirrored and not is_masterless(node.cluster.view, queue.record)


def stream_copy_of(queue: AbstractQueue, node: Node) -> StreamMirror | None:
    """This node's copy of a stream that another one leads, if it lacks nothing."""
    if node.cluster is None:
        return None
    return node.cluster.node.stream_mirror_in_sync((queue.record.vhost, queue.record.name))


def sync_of(queue: AbstractQueue, node: Node) -> Synchronisation | None:
    """Return the synchronisation of a mirrored queue that this node leads, or None."""
    if node.cluster is None:
        return None
    return node.cluster.node.sync_of((queue.record.vhost, queue.record.name))
