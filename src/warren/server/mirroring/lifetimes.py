"""How long a queue lives that has copies on several nodes.

A transient queue ends with its home: its record is put with that node's lease. One that is mirrored
lives on in its copies, so its record, and its bindings, are put without a lease: from the start if
a policy wants copies then, else before its group begins. Whoever sees that the last copy is gone
removes the queue; if nobody is left to see it, the next node to start does (`transient_exchanges`).

A durable queue waits for a node that has all of it, if its policy would rather have it wait than
lose messages. What the policy says of nodes that fail, mirrors see to; a node that stops in good
order says in the group's record what shall be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from warren.cluster.remote_queue import RemoteQueue
from warren.flow.alarms import Resource
from warren.metadata.keys import group_key
from warren.metadata.store import Check, MetadataError, Put
from warren.mirror.group_record import (
    GroupRecord,
    NotAllowed,
    QueueState,
    encode_record,
    node_of,
    stop,
)
from warren.model.errors import AmqpError
from warren.model.records import QueueRecord
from warren.policy.wanted_copies import Mirroring, mirroring_of
from warren.queues.boundary import AbstractQueue
from warren.server.logs import EventLog
from warren.server.mirroring.replica_host import QueueName, ReplicaOfNode

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors

HAND_OVER_S_MAX: Final = 10.0
"""A node that stops does not wait longer for others to take over."""

_log = EventLog("mirror")


class Lifetimes:
    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._beginning: set[QueueName] = set()

    def outlives_home(self, record: QueueRecord) -> bool:
        """Whether a queue that is not durable has, or is about to have, other copies."""
        if record.exclusive:
            return False
        is_mirrored = self._mirrors.groups.group_of(record) is not None
        return is_mirrored or self._mirroring_of(record) is not None

    def is_only_on(self, record: QueueRecord, node: str) -> bool:
        """Whether the queue is lost without that node."""
        group = self._mirrors.groups.group_of(record)
        if group is None:
            return record.node == node
        return all(node_of(member) == node for member in group.insync)

    def is_masterless(self, record: QueueRecord) -> bool:
        """Nobody leads it, and nobody who runs will."""
        if self._mirrors.groups.group_of(record) is None or self._mirrors.groups.home_of(record):
            return False
        return not self._mirrors.cluster.homes.may_have_home(record)

    def may_lose_messages(self, record: QueueRecord, group: GroupRecord) -> bool:
        """Rather than wait for a node that has them."""
        mirroring = self._mirroring_of(record)
        is_waiting = group.state is not QueueState.LIVE
        return not is_waiting and (mirroring is None or mirroring.promotes_unsynced_on_failure)

    def _mirroring_of(self, record: QueueRecord) -> Mirroring | None:
        vhost = self._mirrors.broker.vhosts[record.vhost]
        return mirroring_of(vhost.policies.of_queue(record).effective)

    async def stop(self) -> None:
        """This node stops in good order: nobody is to take over with less than it has.

        Unless a policy says so, or somebody has as much.
        """
        self._mirrors.is_stopping = True
        await self.hand_over_all()
        with suppress(MetadataError):
            for host in tuple(self._mirrors.replicas.values()):
                queue = self._find(host.name)
                if host.replica.master is None or queue is None:
                    continue
                mirroring = self._mirroring_of(queue.record)
                if mirroring is None or not mirroring.promotes_unsynced_on_shutdown:
                    await self._stop(host)

    async def hand_over_all(self) -> None:
        """Have the mirrors lead that lack nothing, on nodes in service; wait for that a while."""
        moving: set[QueueName] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_S_MAX):
                while True:
                    nodes = self._mirrors.cluster.nodes_taking_part
                    moving.update(h.name for h in self._led() if self._hand_over(h, nodes))
                    moving = {name for name in moving if not self._has_moved(name)}
                    if not moving:
                        return
                    await self._mirrors.keeper.until_changed()

    def _led(self) -> list[ReplicaOfNode]:
        hosts = [host for host in self._mirrors.replicas.values() if self._find(host.name)]
        return [host for host in hosts if host.replica.master is not None]

    def _has_moved(self, name: QueueName) -> bool:
        """Somebody else leads, or there is nothing to be led any more."""
        group, _ = self._mirrors.groups.records.get(name, (None, 0))
        if group is None:
            return True
        return group.is_live(group.leader) and node_of(group.leader) != self._mirrors.cluster.name

    def leave_full_disk(self, vhost: str) -> None:
        """The disk takes nothing: mirrors lead that lack nothing, and whose disks have room.

        All masters of the virtual host go, since they share its journal. Consumers are served and
        publishes that are under way are confirmed by the mirrors that lead instead.
        """
        alarms = self._mirrors.context.brake.board.alarms
        full = {alarm.node for alarm in alarms if alarm.resource is Resource.DISK}
        nodes = [n for n in self._mirrors.cluster.nodes_taking_part if n not in full]
        for host in self._led():
            if host.vhost == vhost and not host.replica.is_handing_over:
                if self._hand_over(host, nodes):
                    _log.warning("disk takes nothing: master hands over", queue=str(host))

    def _hand_over(self, host: ReplicaOfNode, nodes: Sequence[str]) -> bool:
        """Have a mirror in sync on one of the nodes lead; False if there is none."""
        record = host.replica.record
        assert record is not None, "a master has read there that it is one"
        for member in sorted(record.live, key=lambda member: member.joined_view):
            is_other = member.id != record.leader and member.id in record.insync
            if is_other and member.node in nodes:
                keeps_copy = self._mirrors.is_stopping or self._mirrors.keeper.is_fixed(host)
                host.replica.hand_over(member.id, keeps_copy=keeps_copy)
                return True
        return False

    async def _stop(self, host: ReplicaOfNode) -> None:
        assert host.replica.record is not None, "a master has read there that it is one"
        try:
            stopped = stop(host.replica.record, host.replica.me.id)
        except NotAllowed:
            return
        key = group_key(*host.name)
        checks = [Check(key, host.replica.revision)]
        if await self._mirrors.store.commit(checks, [Put(key, encode_record(stopped))]):
            _log.warning("no mirror is synchronised: the queue is down meanwhile", queue=str(host))

    def begin(self, record: QueueRecord) -> None:
        """The queue is to have copies, and its home is this node."""
        name = (record.vhost, record.name)
        if record.durable:
            self._mirrors.found(name)
        elif name not in self._beginning:
            self._beginning.add(name)
            self._mirrors.spawn(self._begin_transient(name))

    async def _begin_transient(self, name: QueueName) -> None:
        is_renewed = await self._renew(name)
        self._beginning.discard(name)
        if (
            is_renewed
            and name not in self._mirrors.replicas
            and name not in self._mirrors.groups.records
        ):
            self._mirrors.found(name)

    async def end(self, name: QueueName) -> None:
        """It has no copies any more."""
        queue = self._find(name)
        if queue is not None and not queue.record.durable:
            await self._renew(name)

    def _find(self, name: QueueName) -> AbstractQueue | None:
        vhost = self._mirrors.broker.vhosts.get(name[0])
        return None if vhost is None else vhost.queues.get(name[1])

    async def _renew(self, name: QueueName) -> bool:
        if self._find(name) is None:
            return False
        with suppress(MetadataError):
            return await self._mirrors.broker.vhosts[name[0]].renew_queue(name[1])
        return False

    async def remove_lost(self) -> None:
        """A node has ended: transient queues of which it had the last copy have ended with it."""
        for vhost in tuple(self._mirrors.broker.vhosts.values()):
            with suppress(MetadataError, AmqpError):
                await vhost.drop_lost(self._is_lost)

    def _is_lost(self, record: QueueRecord) -> bool:
        if record.durable or not self.outlives_home(record):
            return False
        queue = self._mirrors.broker.vhosts[record.vhost].queues[record.name]
        is_elsewhere = isinstance(queue, RemoteQueue)
        home = self._mirrors.groups.home_of(record)
        is_running = home in self._mirrors.cluster.running_nodes
        return is_elsewhere and not is_running and not self._mirrors.groups.survivors_of(record)
