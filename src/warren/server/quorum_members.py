"""Members of quorum queues: the nodes that an operator chooses for their copies.

What is chosen is stored for all nodes, with the queue; the master of the queue reads it there and
has copies made or removed, as after a change of a mirrored queue's policy. A change is answered
when that has happened, or after a while.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from warren.cluster.chosen_nodes import decode_chosen, encode_chosen
from warren.metadata.keys import chosen_nodes_key, queue_key
from warren.metadata.store import Check, MetadataUnavailable, Put
from warren.model.records import QueueRecord
from warren.policy.quorum_queues import is_quorum
from warren.replication.group_record import GroupRecord, node_of

if TYPE_CHECKING:
    from warren.cluster.view import ClusterView
    from warren.server.cluster import Cluster

ATTEMPTS_MAX: Final = 20
"""Of changing a choice that others change, too."""
MEMBERS_S_MAX: Final = 15.0
"""A change of members does not wait longer for the copies that it is about."""


class LastMember(Exception):
    """A queue without any copy would be no queue."""


def members_of(view: ClusterView, record: QueueRecord) -> tuple[str, ...]:
    """Nodes with a copy, or that should have one and do not run; the leader's first."""
    name = (record.vhost, record.name)
    group = view.group_of(name)
    if group is None:
        return view.chosen.get(name) or (record.node or view.name,)
    living = sorted(group.live, key=lambda member: (member.id != group.leader, member.joined_view))
    nodes = [member.node for member in living]
    absent = view.chosen.get(name) or group.recoverable
    away = [node for node in absent if node not in view.running_nodes]
    return tuple(dict.fromkeys(nodes + away)) or (node_of(group.leader),)


def online_of(view: ClusterView, group: GroupRecord) -> list[str]:
    """Nodes whose copy takes part at this moment."""
    return [member.node for member in group.live if view.is_alive(member)]


def critical_on(view: ClusterView, node: str) -> list[QueueRecord]:
    """Quorum queues of which that node has all, and no other node that runs has."""
    found = []
    for name, stored in view.groups.items():
        record, group = view.topology.record_of(name), stored.record
        if record is None or not is_quorum(record.arguments):
            continue
        whole = {m.node for m in group.live if m.id in group.insync and view.is_alive(m)}
        if whole == {node}:
            found.append(record)
    return found


class QuorumMembers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._view = cluster.view

    async def add(self, record: QueueRecord, node: str) -> bool:
        """Have a copy on that node; False if it is not there yet when this ends."""
        name = (record.vhost, record.name)
        if node not in members_of(self._view, record):
            await self._choose(record, added=(node,))
        return await self._cluster.shell.until(lambda: node in self._nodes_of(name), MEMBERS_S_MAX)

    async def remove(self, record: QueueRecord, node: str) -> bool:
        """Have no copy on that node; False if it is still there when this ends.

        Raises LastMember.
        """
        name = (record.vhost, record.name)
        if node in members_of(self._view, record):
            await self._choose(record, removed=(node,))
        return await self._cluster.shell.until(
            lambda: node not in self._nodes_of(name), MEMBERS_S_MAX
        )

    def _nodes_of(self, name: tuple[str, str]) -> list[str]:
        group = self._view.group_of(name)
        return [] if group is None else [member.node for member in group.live]

    async def _choose(
        self, record: QueueRecord, added: Collection[str] = (), removed: Collection[str] = ()
    ) -> None:
        """Store the nodes that are wanted now. Raises LastMember or MetadataUnavailable."""
        store = self._cluster.store
        key, queue = chosen_nodes_key(record.vhost, record.name), queue_key(*_name_of(record))
        for _ in range(ATTEMPTS_MAX):
            stored, declared = await store.get(key), await store.get(queue)
            if declared is None:
                return  # it has been deleted meanwhile
            before = members_of(self._view, record)
            before = before if stored is None else decode_chosen(stored.value)
            nodes = [n for n in dict.fromkeys((*before, *added)) if n not in removed]
            if not nodes:
                raise LastMember
            checks = [
                Check(key, 0 if stored is None else stored.version),
                Check(queue, declared.version),
            ]
            if await store.transact(checks, [Put(key, encode_chosen(nodes))]):
                return
        raise MetadataUnavailable(f"the nodes chosen for {record} change all the time")


def _name_of(record: QueueRecord) -> tuple[str, str]:
    return record.vhost, record.name
