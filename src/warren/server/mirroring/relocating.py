"""Masters that are to move though no policy says so: `rebalance` wants them elsewhere.

A destination that has no copy gets one, one that lacks messages is synchronised, and only then the
master is handed over. After a while without success the wish is forgotten, and the queue stays.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.mirror.group_record import GroupRecord, node_of
from warren.policy.rebalancing import MasterSeen, candidates_of
from warren.policy.wanted_copies import Copies, mirroring_of
from warren.queues.queue import Queue
from warren.server.mirroring.replica_host import QueueName, ReplicaOfNode

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors

RELOCATION_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Wish:
    node: str
    until_s: float


class Relocations:
    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._wishes: dict[QueueName, _Wish] = {}

    def want(self, name: QueueName, node: str) -> None:
        until_s = asyncio.get_running_loop().time() + RELOCATION_S_MAX
        self._wishes[name] = _Wish(node, until_s)
        self._mirrors.keeper.changed(name)

    def is_wanted(self, name: QueueName) -> bool:
        return name in self._wishes

    def applied_to(self, name: QueueName, group: GroupRecord, wanted: Copies) -> Copies:
        """What the policy wants, and the destination besides; that leads once it has everything."""
        wish = self._wishes.get(name)
        if wish is None:
            return wanted
        is_late = asyncio.get_running_loop().time() > wish.until_s
        is_gone = wish.node not in self._mirrors.cluster.running_nodes
        if is_late or is_gone or wish.node == node_of(group.leader):
            del self._wishes[name]
            return wanted
        is_ready = any(m.node == wish.node and m.id in group.insync for m in group.live)
        master = wish.node if is_ready else wanted.master
        mirrors = (*wanted.mirrors, wanted.master, wish.node)
        return Copies(master, tuple(dict.fromkeys(node for node in mirrors if node != master)))

    def seen(self, taking_part: list[str]) -> list[MasterSeen]:
        """The replicated queues that this node leads."""
        found = []
        for host in self._mirrors.replicas.values():
            vhost = self._mirrors.broker.vhosts.get(host.vhost)
            queue = None if vhost is None else vhost.queues.get(host.queue)
            group = host.replica.record
            if not isinstance(queue, Queue) or group is None:
                continue
            mirroring = mirroring_of(host.policy)
            if mirroring is None:
                continue
            candidates = candidates_of(mirroring, _mirrors_of(host, group), taking_part)
            if candidates:
                node, messages = self._mirrors.cluster.name, queue.message_count
                found.append(MasterSeen(*host.name, node, messages, candidates))
        return found


def _mirrors_of(host: ReplicaOfNode, group: GroupRecord) -> list[str]:
    """Those in sync first."""
    mirrors = [member for member in group.live if member.id != host.replica.me.id]
    return [m.node for m in sorted(mirrors, key=lambda each: each.id not in group.insync)]
