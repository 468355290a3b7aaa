"""Where a queue is, and who answers for it: a mirrored one may have moved since it was declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.queues.boundary import AbstractQueue
from warren.server.mirroring.synchronising import SyncOfQueue

if TYPE_CHECKING:
    from warren.server.node import Node


def home_of(queue: AbstractQueue, node: Node) -> str:
    """The name of a node; empty while a mirrored queue is between two homes."""
    if not queue.is_remote or node.cluster is None:
        return node.config.name
    return node.cluster.mirrors.home_of(queue.record)


def sync_of(queue: AbstractQueue, node: Node) -> SyncOfQueue | None:
    """Of a queue that is mirrored, and led by this node."""
    return None if node.cluster is None else node.cluster.mirrors.sync_of(queue.record)
