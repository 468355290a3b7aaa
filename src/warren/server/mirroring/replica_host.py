"""What one replica of a mirrored queue needs of its node: links, store, disks, and the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from warren.broker.queue_host import levels_of
from warren.broker.vhost import VirtualHost
from warren.cluster.control import Held, Kept
from warren.cluster.remote_queue import RemoteQueue
from warren.metadata.keys import group_key, node_key
from warren.metadata.store import Check, MetadataError, Put
from warren.mirror.frames import Frame, Payload, encode_frame
from warren.mirror.gm_events import Timer
from warren.mirror.group_record import GroupRecord, Member, SessionGone, encode_record
from warren.mirror.instructions import first_sequence_of
from warren.mirror.master import MasterBacking
from warren.mirror.mirror import Mirror
from warren.mirror.rejoining import Remains
from warren.mirror.replica import Replica
from warren.mirror.stream_mirror import StreamMirror
from warren.policy.wanted_copies import mirroring_of
from warren.queues.backing import BackingQueue
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.queue import Queue
from warren.server.logs import EventLog
from warren.server.mirroring.homes import follow_freezing
from warren.server.mirroring.levels import make_level
from warren.server.mirroring.stream_copies import (
    begin_stream,
    is_stream,
    make_stream_mirror,
    promote_stream,
    stream_copy_of,
)
from warren.server.mirroring.synchronising import SyncOfQueue
from warren.storage.variable_queue import VariableQueue
from warren.streams.queue import StreamQueue

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors

_log = EventLog("mirror")

QueueName: TypeAlias = tuple[str, str]
"""Of a virtual host, and in it."""


class ReplicaOfNode:
    """The `ReplicaHost` of one queue on this node."""

    def __init__(self, mirrors: Mirrors, vhost: str, queue: str, uid: str) -> None:
        self.vhost = vhost
        self.queue = queue
        self.name = (vhost, queue)
        self.mirrors = mirrors
        self.replica = Replica(mirrors.new_member(), uid, self)
        self.sync: SyncOfQueue | None = None
        """Of a master."""
        self._is_disk_refusing = False
        self.is_abandoned = False
        """A master's copy that is the queue's no more."""
        self._held: tuple[Member, int, int] | None = None
        self._refused_epoch = 0
        """The epoch whose end was told of that has no successor."""

    def __str__(self) -> str:
        return f"queue '{self.queue}' in vhost '{self.vhost}'"

    def make_mirror(self, levels: Mapping[int, VariableQueue]) -> Mirror:
        """With the levels that another one had, or the disk."""
        if is_stream(self.mirrors, self.name):
            return make_stream_mirror(self, levels)
        mirror = Mirror(self.replica.me.id, self._level, self.tell_held, self.disk_failed)
        for level in levels.values():
            level.on_loaded = None
            level.forget_reads()
        mirror.adopt(levels)
        return mirror

    # Ring and store.

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        self.mirrors.send(to.node, encode_frame(frame, payloads))

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        self.mirrors.spawn(self._propose(record, revision, gone, answered))

    async def _propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        key = group_key(self.vhost, self.queue)
        checks = [Check(key, revision or 0)]
        is_stored = False
        with suppress(MetadataError):
            for session in gone:
                version = await self.mirrors.version_without(session)
                if version is None:
                    answered(False)
                    return
                checks.append(Check(node_key(session.node), version))
            put = Put(key, encode_record(record))
            is_stored = await self.mirrors.store.commit(checks, [put]) is not None
        answered(is_stored)

    def read_record(self) -> None:
        """The copy here follows the store by itself."""

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(delay_ms / 1000, self.replica.timer_fired, timer)

    def _report_held(self, leader: Member, epoch: int, number: int) -> None:
        if self._held is None:
            self.mirrors.at_end_of_turn(self._send_held)
        self._held = (leader, epoch, number)

    def _send_held(self) -> None:
        if self._held is not None:
            (leader, epoch, number), self._held = self._held, None
            self.mirrors.tell(
                leader.node, Held(self.replica.uid, self.replica.me.id, epoch, number)
            )

    def tell_held(self, number: int) -> None:
        self._is_disk_refusing = False
        record = self.replica.record
        leader = None if record is None else record.find(record.leader)
        if self.replica.master is not None:
            self.replica.master.settle()
        elif record is not None and leader is not None:
            self._report_held(leader, record.epoch, number)

    def tell_kept(self, leader: Member, epoch: int, remains: Remains) -> None:
        self.mirrors.tell(leader.node, Kept(self.replica.uid, self.replica.me.id, epoch, *remains))

    def flush_due(self, replica: Replica, delay_ms: int) -> None:
        if delay_ms:
            asyncio.get_running_loop().call_later(delay_ms / 1000, replica.flush)
        else:
            self.mirrors.at_end_of_turn(replica.flush)

    # The queue.

    def may_promote_unsynced(self) -> bool:
        mirroring = mirroring_of(self.policy)
        may = mirroring is not None and mirroring.promotes_unsynced_on_failure
        record = self.replica.record
        if not may and record is not None and self._refused_epoch != record.epoch:
            self._refused_epoch = record.epoch
            _log.warning(
                "queue has no master: no mirror is synchronised, and none other is promoted",
                queue=str(self),
                epoch=record.epoch,
            )
        return may

    def lead(self, replica: Replica) -> MasterBacking:
        vhost = self._virtual_host
        queue = vhost.queues[self.queue]
        if isinstance(queue, StreamQueue):
            master: MasterBacking = begin_stream(self, queue, replica)
            self._lead_with(master)
            queue.backing = master
            return master
        if isinstance(queue, Queue):
            master = MasterBacking(queue.backing, self.mirrors.new_origin(), replica)
            master.adopt_unacked(self.mirrors.unacked_of(queue))
            if isinstance(queue, DeduplicatingQueue):
                master.adopt_unacked(queue.id_records())
            self._lead_with(master)
            queue.backing = master
            follow_freezing(queue, master)
            return master
        mirror = replica.mirror
        assert mirror is not None, "who is promoted has been a mirror"
        assert isinstance(queue, RemoteQueue), "who is a mirror has another home"
        if isinstance(mirror, StreamMirror):
            master = promote_stream(self, queue, replica)
        else:
            master = MasterBacking(self._backing_of(mirror), queue.origin, replica)
            master.inherit(mirror, self._first_sequence)
        self._lead_with(master)
        self.mirrors.promoted(self, queue, master)
        replica.mirror = None
        return master

    def _lead_with(self, master: MasterBacking) -> None:
        self.mirrors.context.brake.watch(master.credit)
        self.sync = SyncOfQueue(self, master)

    def step_down(self, replica: Replica) -> None:
        assert replica.master is not None
        self.mirrors.deposed(self, replica.master)

    def retire(self) -> dict[int, VariableQueue]:
        """Whoever this was in its group is gone; what it had."""
        self.replica.is_stopped = True
        if self.replica.master is not None:
            self.mirrors.deposed(self, self.replica.master)
        return self.levels_left()

    def levels_left(self) -> dict[int, VariableQueue]:
        """What this copy has, and no queue has any more."""
        mirror, master = self.replica.mirror, self.replica.master
        log: Any = stream_copy_of(self.replica)
        if log is not None:
            return {0: log} if self.is_abandoned or master is None else {}
        if master is not None:
            return master.level_queues() if self.is_abandoned else {}
        return {} if mirror is None else mirror.levels

    def stopped(self, replica: Replica, reason: str) -> None:
        _log.info("replica has stopped", queue=str(self), reason=reason)
        self.mirrors.forget(self)

    @property
    def policy(self) -> Mapping[str, object]:
        """What holds for the queue, by all policies."""
        return self._virtual_host.policy_of_queue(self.queue).effective

    @property
    def _virtual_host(self) -> VirtualHost:
        return self.mirrors.broker.vhosts[self.vhost]

    # The disk.

    def _level(self, number: int) -> VariableQueue:
        level = make_level(self.mirrors, self.name, number)
        level.next_sequence = max(level.next_sequence, self._first_sequence)
        return level

    @property
    def _first_sequence(self) -> int:
        """Of messages that this node gives numbers to; mirrors are told theirs."""
        record = self.replica.record
        is_led = record is not None and record.leader == self.replica.me.id
        return first_sequence_of(record.epoch) if record is not None and is_led else 0

    def _backing_of(self, mirror: Mirror) -> BackingQueue:
        record = self._virtual_host.queues[self.queue].record
        backing = levels_of(self._virtual_host.policies.settings_of(record), self._level)
        if backing is None:
            return mirror.levels[0] if 0 in mirror.levels else self._level(0)
        for number, level in mirror.levels.items():
            backing.add_level(number, level)
        return backing

    def disk_failed(self) -> None:
        """The others go on without this copy, if one of them has everything."""
        if not self._is_disk_refusing:
            self._is_disk_refusing = True
            _log.warning(
                "the disk does not take what the master sends: the others go on without this copy, "
                "or the queue waits for room if nobody else has all that was confirmed",
                queue=str(self),
            )
        self.replica.give_up()
