"""Where a queue is, and who answers for it: a mirrored one may have moved since it was declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.mirror.stream_mirror import StreamMirror
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.server.mirroring.stream_copies import mirror_in_sync
from warren.server.mirroring.synchronising import SyncOfQueue

if TYPE_CHECKING:
    from warren.server.node import Node


def home_of(queue: AbstractQueue, node: Node) -> str:
    """The name of a node; empty while a mirrored queue is between two homes."""
    if isinstance(queue, Queue) or node.cluster is None:
        return node.config.name
    return node.cluster.mirrors.groups.home_of(queue.record)


def is_between_homes(queue: AbstractQueue, node: Node) -> bool:
    """A mirrored queue that is without one for a moment."""
    if node.cluster is None:
        return False
    mirrors = node.cluster.mirrors
    is_mirrored = mirrors.groups.group_of(queue.record) is not None
    return is_mirrored and not mirrors.lifetimes.is_masterless(queue.record)


def stream_copy_of(queue: AbstractQueue, node: Node) -> StreamMirror | None:
    """This node's copy of a stream that another one leads, if it lacks nothing."""
    return None if node.cluster is None else mirror_in_sync(node.cluster.mirrors, queue.record)


def sync_of(queue: AbstractQueue, node: Node) -> SyncOfQueue | None:
    """Of a queue that is mirrored, and led by this node."""
    return None if node.cluster is None else node.cluster.mirrors.sync_of(queue.record)
