"""Masters: where the clients of this node find a mirrored queue, as a function of the view.

its master runs, and can be reached         redirect clients there
nobody leads, or the master is unreachable  let them wait, if a copy could come forward
no copy that could lead is on a node that runs    the queue is down
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from warren.cluster.view import ClusterView
from warren.model.records import QueueName, QueueRecord
from warren.replication.group_record import node_of


class Place(Enum):
    ELSEWHERE = "elsewhere"
    AWAITED = "awaited"
    LOST = "lost"


class Whereabouts(NamedTuple):
    """Where a queue is that this node does not serve; `node` is its master's, if it has one."""

    place: Place
    node: str = ""
    is_mirrored: bool = False
    homes: tuple[str, ...] = ()
    """Nodes with a copy that could lead, of a mirrored queue that is lost."""


def locate(view: ClusterView, record: QueueRecord, missing_at: str = "") -> Whereabouts:
    """Find the master of a queue of another node. `missing_at` has said that it is not there."""
    is_mirrored = may_have_master(view, record)
    node = view.master_of(record)
    is_reachable = node in view.sessions and node not in view.given_up
    if is_reachable and node != missing_at:
        return Whereabouts(Place.ELSEWHERE, node, is_mirrored)
    if is_mirrored:
        return Whereabouts(Place.AWAITED, is_mirrored=True)
    return Whereabouts(Place.LOST, homes=homes_of(view, record))


def homes_of(view: ClusterView, record: QueueRecord) -> tuple[str, ...]:
    """Nodes that have, or had when last seen, all that was confirmed; none if not mirrored."""
    group = view.group_of((record.vhost, record.name))
    return () if group is None else tuple(dict.fromkeys(map(node_of, group.insync)))


def may_have_master(view: ClusterView, record: QueueRecord) -> bool:
    """True if a node that runs has, or may have on its disk, a copy that it could lead with."""
    return bool(view.survivors_of(record)) or _may_return(view, record)


def _may_return(view: ClusterView, record: QueueRecord) -> bool:
    """True if a running node had a synchronised copy in an earlier life: it may be on its disk."""
    group = view.group_of((record.vhost, record.name))
    if group is None or not record.durable:
        return False
    return not set(view.running_nodes).isdisjoint(map(node_of, group.insync))


def is_masterless(view: ClusterView, record: QueueRecord) -> bool:
    """True if nobody leads a mirrored queue and no node that runs will."""
    if view.group_of((record.vhost, record.name)) is None or view.master_of(record):
        return False
    return not may_have_master(view, record)


def names_led_by(view: ClusterView, node: str) -> list[QueueName]:
    """Mirrored queues whose master is, or was last, on that node."""
    return [name for name, stored in view.groups.items() if node_of(stored.record.leader) == node]


def names_synced_on(view: ClusterView, node: str) -> list[QueueName]:
    """Mirrored queues of which that node has, or had in an earlier life, a synchronised copy."""
    groups = view.groups.items()
    return [name for name, stored in groups if node in map(node_of, stored.record.insync)]
