"""Rebalancing: spreading masters over the nodes, by one node of the cluster at a time.

The node that rebalances holds a lock in the store, with its lease. It has asked all nodes what they
lead and told them what to move (`management/routes/rebalancing.py`); here it waits until that has
happened, or has taken too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from warren.cluster.relocations import RELOCATION_MS_MAX
from warren.metadata.keys import lock_key
from warren.metadata.store import Check, Delete, Put
from warren.model.logs import EventLog
from warren.policy.quorum_queues import is_quorum
from warren.policy.rebalancing import MasterSeen, Move, candidates_of
from warren.queues.queue import Queue
from warren.replication.group_record import GroupRecord, node_of

if TYPE_CHECKING:
    from warren.cluster.node_replica import NodeReplica
    from warren.server.cluster import Cluster

_KEY: Final = lock_key("rebalance")
_log = EventLog("mirror")


class InProgress(Exception):
    """Another node is rebalancing."""


class Rebalancing:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def begin(self) -> None:
        """Raises InProgress."""
        put = Put(_KEY, self._cluster.name.encode(), self._cluster.broker.lease)
        if not await self._cluster.store.transact([Check(_KEY, 0)], [put]):
            raise InProgress

    async def finish(self, moves: Sequence[Move]) -> None:
        """Wait for what has been planned, and let others rebalance."""
        try:
            timeout_s = RELOCATION_MS_MAX / 1000
            await self._cluster.shell.until(lambda: all(map(self._is_done, moves)), timeout_s)
        finally:
            await self._cluster.store.transact([], [Delete(_KEY)])
        _log.info("masters are rebalanced", moved=len(moves))

    def _is_done(self, move: Move) -> bool:
        """True also if the queue does not exist any more."""
        group = self._cluster.view.group_of((move.vhost, move.queue))
        return group is None or (node_of(group.leader) == move.node and group.is_live(group.leader))

    def masters(self) -> tuple[dict[str, int], dict[str, int]]:
        """Number of mirrored queues that each running node leads, and of quorum queues."""
        view = self._cluster.view
        leaders: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        for name, stored in view.groups.items():
            record = view.topology.record_of(name)
            if record is not None:
                leaders[is_quorum(record.arguments)][node_of(stored.record.leader)] += 1
        nodes = self._cluster.running_nodes
        classic, quorum = leaders
        return {node: classic[node] for node in nodes}, {node: quorum[node] for node in nodes}


def masters_seen(cluster: Cluster, taking_part: list[str]) -> list[MasterSeen]:
    """Return the mirrored queues that this node leads, and where else they could be led."""
    found = []
    for host in cluster.node.led():
        vhost, name = host.name
        queue = cluster.broker.vhosts[vhost].queues.get(name)
        group, mirroring = host.replica.record, host.mirroring
        if not isinstance(queue, Queue) or group is None or mirroring is None:
            continue
        candidates = candidates_of(mirroring, _mirrors_of(host, group), taking_part)
        if candidates:
            kind = queue.settings.queue_type.value
            seen = MasterSeen(vhost, name, cluster.name, queue.message_count, candidates, kind)
            found.append(seen)
    return found


def _mirrors_of(host: NodeReplica, group: GroupRecord) -> list[str]:
    """Nodes with a mirror, those in sync first."""
    mirrors = [member for member in group.live if member.id != host.replica.me.id]
    return [m.node for m in sorted(mirrors, key=lambda each: each.id not in group.insync)]
