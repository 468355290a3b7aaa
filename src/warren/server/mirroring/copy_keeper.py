"""Sees to it that the queues this node leads have copies where their policies want them.

Nothing is remembered between two looks: whenever a policy, a node or a group has changed, and every
now and then, the queues concerned are looked at. What is missing is asked for, what is too many is
put out, in this order; and what has been asked for in vain is asked for the next time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from warren.cluster.control import BecomeMirror
from warren.metadata.keys import group_key
from warren.metadata.store import Check, Delete, MetadataError
from warren.mirror.group_record import GroupRecord, node_of
from warren.model.records import QueueRecord
from warren.policy.wanted_copies import (
    Choose,
    Copies,
    Mirroring,
    MirrorMode,
    mirroring_of,
    wanted_copies,
)
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.server.mirroring.replica_host import QueueName, ReplicaOfNode

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors

LOOK_S: Final = 1.0
DECLARE_S_MAX: Final = 5.0
"""A declare does not wait longer for its mirrors: one of the nodes may be in trouble."""


class CopyKeeper:
    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._unsettled: dict[QueueName, None] = {}
        self._has_changed = asyncio.Event()

    def start(self) -> None:
        asyncio.get_running_loop().call_later(LOOK_S, self.start)
        self.look_at_all()

    def changed(self, name: QueueName) -> None:
        """Something about the queue, or its group."""
        if not self._unsettled:
            asyncio.get_running_loop().call_soon(self._look_at_some)
        self._unsettled[name] = None
        self._has_changed.set()
        self._has_changed = asyncio.Event()

    async def until_changed(self) -> None:
        """Something about some queue, or its group."""
        await self._has_changed.wait()

    def look_at_all(self) -> None:
        for vhost in self._mirrors.broker.vhosts.values():
            if any("ha-mode" in p.policy.definition for p in vhost.policies.policies.policies):
                for queue in vhost.queues_here():
                    self._look_at((vhost.name, queue.record.name))
        for name in tuple(self._mirrors.replicas):
            self._look_at(name)

    def _look_at_some(self) -> None:
        names, self._unsettled = self._unsettled, {}
        for name in names:
            self._look_at(name)

    def _look_at(self, name: QueueName) -> None:
        queue = self._find(name)
        if not isinstance(queue, Queue) or queue.record.exclusive:
            return
        mirroring = mirroring_of(self._policy_of(queue))
        host = self._mirrors.replicas.get(name)
        if host is None:
            if mirroring is not None and name not in self._mirrors.groups.records:
                self._mirrors.lifetimes.begin(queue.record)
            return
        group = host.replica.record
        if group is not None and host.replica.master is not None:
            wanted = self._wanted(mirroring, group, random.sample)
            wanted = self._mirrors.relocations.applied_to(name, group, wanted)
            self._ask_and_expel(host, group, wanted)
            if wanted.master != node_of(group.leader):
                self._move(host, group, wanted)
            if host.sync is not None:
                host.sync.consider()
            is_back = queue.record.node == self._mirrors.cluster.name
            if mirroring is None and len(group.members) == 1 and is_back:
                self._mirrors.spawn(self._dissolve(host))

    def _find(self, name: QueueName) -> AbstractQueue | None:
        vhost = self._mirrors.broker.vhosts.get(name[0])
        return None if vhost is None else vhost.queues.get(name[1])

    def _policy_of(self, queue: AbstractQueue) -> Mapping[str, object]:
        vhost = self._mirrors.broker.vhosts[queue.record.vhost]
        return vhost.policies.of_queue(queue.record).effective

    def _wanted(self, mirroring: Mirroring | None, group: GroupRecord, choose: Choose) -> Copies:
        master = node_of(group.leader)
        if mirroring is None:
            return Copies(master)
        eldest_first = sorted(group.live, key=lambda member: member.joined_view)
        mirrors = [member for member in eldest_first if member.id != group.leader]
        present = Copies(master, tuple(member.node for member in mirrors))
        synced = [member.node for member in mirrors if member.id in group.insync]
        running = self._mirrors.cluster.running_nodes
        return wanted_copies(mirroring, present, synced, running, choose)

    def _ask_and_expel(self, host: ReplicaOfNode, group: GroupRecord, wanted: Copies) -> None:
        present = {member.node: member for member in group.live}
        for node in wanted.mirrors:
            if node not in present:
                self._mirrors.tell(node, BecomeMirror(*host.name, group.uid))
        for node, member in present.items():
            if node not in (*wanted.mirrors, wanted.master) and member.id != group.leader:
                # One that is not there keeps what it has, for when it comes back.
                is_running = node in self._mirrors.cluster.running_nodes
                host.replica.expel(member.id, is_unwanted=is_running)

    def _move(self, host: ReplicaOfNode, group: GroupRecord, wanted: Copies) -> None:
        """Have the copy of another node lead, if it lacks nothing."""
        keeps_copy = self._mirrors.cluster.name in wanted.mirrors and self.is_fixed(host)
        for member in group.live:
            if member.node == wanted.master and member.id in group.insync:
                host.replica.hand_over(member.id, keeps_copy=keeps_copy)

    def is_fixed(self, host: ReplicaOfNode) -> bool:
        """Whether the policy says on which nodes there are copies, not only how many."""
        mirroring = mirroring_of(host.policy)
        return mirroring is not None and mirroring.mode is not MirrorMode.EXACTLY

    async def _dissolve(self, host: ReplicaOfNode) -> None:
        """The queue is not to be mirrored any more, and is not.

        Only where it was declared: elsewhere nothing but its group's record says where it is.
        """
        key = group_key(*host.name)
        with suppress(MetadataError):
            if await self._mirrors.store.commit([Check(key, host.replica.revision)], [Delete(key)]):
                await self._mirrors.lifetimes.end(host.name)

    # Declaring.

    async def until_mirrored(self, record: QueueRecord) -> None:
        """A queue is declared when all that should hold copies do, or after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DECLARE_S_MAX):
                while not self._is_as_wanted((record.vhost, record.name)):
                    await self.until_changed()

    def _is_as_wanted(self, name: QueueName) -> bool:
        queue = self._find(name)
        if queue is None or queue.record.exclusive:
            return True
        mirroring = mirroring_of(self._policy_of(queue))
        if mirroring is None:
            return True
        if name not in self._mirrors.groups.records:
            return False
        group = self._mirrors.groups.records[name][0]
        wanted = self._wanted(mirroring, group, _first)
        return len(group.insync) > len(wanted.mirrors)


def _first(nodes: Sequence[str], count: int) -> Sequence[str]:
    return nodes[:count]
