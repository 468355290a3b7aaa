"""The node's part of one replica of a mirrored queue: its files, its messages, its queue.

`Replica` decides what follows from the group's record; this class is its `ReplicaHost`. It turns
what the replica asks for into actions of the node, and opens, promotes and gives up the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from warren.cluster.actions import TellNode
from warren.cluster.copy_files import CopyFiles, stream_copy_of
from warren.cluster.effects import Effects
from warren.cluster.gathering import Gathering
from warren.cluster.held_news import HeldNews
from warren.cluster.kept_copies import Levels
from warren.cluster.link.control import HeldCopy, Kept
from warren.cluster.story import Stories
from warren.cluster.synchronisation import Synchronisation, SyncOfNode
from warren.cluster.view import ClusterView
from warren.metadata.keys import group_key
from warren.metadata.store import Check, Put
from warren.model.logs import EventLog
from warren.model.records import QueueName, describe_queue
from warren.policy.wanted_copies import Mirroring
from warren.replication.classic.instructions import first_sequence_of
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.retained import RetainedMessages
from warren.replication.gm.events import Timer
from warren.replication.gm.frames import Frame, Payload, encode_frame
from warren.replication.group_record import GroupRecord, Member, SessionGone, encode_record
from warren.replication.replica import Replica
from warren.replication.stream.stream_mirror import StreamMirror
from warren.storage.queue.variable_queue import VariableQueue
from warren.streams.log import StreamLog

_log = EventLog("mirror")

OpenLevel: TypeAlias = Callable[[int], VariableQueue]


class Leadership(Protocol):
    """The queues of this node, as far as a replica that leads has a part in them."""

    def lead(self, name: QueueName, replica: Replica, open_level: OpenLevel) -> MasterBacking:
        """Make the copy of this node the queue that clients use."""
        ...

    def depose(self, name: QueueName, master: MasterBacking, is_mirrored: bool) -> bool:
        """Stop leading. True if clients have to find another master, and the copy is left over."""
        ...


class Registry(Protocol):
    """The node's list of replicas."""

    def replica_stopped(self, replica: NodeReplica, reason: str) -> None: ...

    def disk_refuses(self, vhost: str) -> None:
        """The disk of this node, which leads a queue there, takes nothing."""
        ...


class ReplicaParts:
    """Parts that all replicas of a node share."""

    def __init__(
        self,
        view: ClusterView,
        effects: Effects,
        files: CopyFiles,
        leadership: Leadership,
        sync: SyncOfNode,
    ) -> None:
        self.view = view
        self.effects = effects
        self.files = files
        self.leadership = leadership
        self.sync = sync
        self.gathering = Gathering(effects, sync.around.now_ms)
        self.held_news = HeldNews(effects)
        self.stories = Stories(sync.around.now_ms)


class NodeReplica:
    """The `ReplicaHost` of one queue on this node."""

    def __init__(
        self, name: QueueName, uid: str, me: Member, registry: Registry, parts: ReplicaParts
    ) -> None:
        self.name = name
        self.replica = Replica(me, uid, self)
        self.sync: Synchronisation | None = None
        """None unless this node leads."""
        self.is_abandoned = False
        """True for a deposed master's copy, which no queue uses any more."""
        self.invited: set[str] = set()
        """Nodes that were asked for a copy since the link to them came up."""
        self.expelled: set[str] = set()
        """Members that the replica was asked to expel."""
        self.is_dissolving = False
        self._registry = registry
        self._parts = parts
        self._is_disk_refusing = False
        self._told_record: GroupRecord | None = None
        self._told_leader: Member | None = None
        """The leader that `_told_record` names; the copy here tells it how far it has come."""
        self._refused_epoch = 0
        """The last epoch whose end left only mirrors that may not be promoted."""

    def __str__(self) -> str:
        return describe_queue(self.name[1], self.name[0])

    def note(self, what: str, *facts: object) -> None:
        self._parts.stories.note(self.name, what, *facts)

    def make_mirror(self, levels: Levels) -> Mirror:
        """Make a mirror that goes on with what another replica, or the disk, had."""
        files = self._parts.files
        if files.is_stream(self.name):
            log = levels[0] if levels else files.log_of(self.name)
            assert isinstance(log, StreamLog), "the copy of a stream is a log"
            return StreamMirror(self.replica.me.id, log, self.tell_held, self.disk_failed)
        mirror = Mirror(self.replica.me.id, self._level, self.tell_held, self.disk_failed)
        adopted: dict[int, VariableQueue] = {}
        for number, level in levels.items():
            assert isinstance(level, VariableQueue), "only streams are kept in logs"
            level.on_loaded = None
            level.forget_reads()
            adopted[number] = level
        mirror.adopt(adopted)
        return mirror

    # Ring and store.

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        self._parts.effects.send_frame(to.node, encode_frame(frame, payloads))

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        self.note("proposes", record)
        key = group_key(*self.name)

        def told(is_stored: bool) -> None:
            self.note("proposal is stored" if is_stored else "proposal is refused")
            answered(is_stored)

        put = Put(key, encode_record(record))
        self._parts.effects.commit([Check(key, revision or 0)], [put], told, gone)

    def read_record(self) -> None:
        """Nothing to do: the view follows the store by itself."""

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        self._parts.effects.call_later(delay_ms, lambda: self.replica.timer_fired(timer))

    def tell_held(self, number: int, is_awaited: bool) -> None:
        """The copy here has, on disk if need be, everything up to this broadcast.

        `is_awaited`: there are messages in it, and somebody may wait for their confirms.
        """
        self._is_disk_refusing = False
        replica = self.replica
        record = replica.record
        if replica.master is not None:
            replica.master.settle()
            return
        if record is not self._told_record:
            self._told_record = record
            self._told_leader = None if record is None else record.find(record.leader)
        if record is not None and self._told_leader is not None:
            held = HeldCopy(replica.uid, replica.me.id, record.epoch, number)
            self._parts.held_news.add(self._told_leader.node, held, is_awaited)

    def tell_kept(self, leader: Member, epoch: int, remains: RetainedMessages) -> None:
        self.note("tells what it has from before", leader.node, epoch)
        kept = Kept(self.replica.uid, self.replica.me.id, epoch, *remains)
        self._parts.effects.add(TellNode(leader.node, kept))

    def flush_due(self, replica: Replica, urgency: int) -> None:
        self._parts.gathering.flush_due(replica, urgency)

    # The queue.

    @property
    def mirroring(self) -> Mirroring | None:
        """The copies that the queue should have; None if the queue has just been deleted."""
        view = self._parts.view
        record = view.topology.record_of(self.name)
        batch_size = self._parts.sync.terms.batch_size
        return None if record is None else view.mirroring_of(record, batch_size)

    def may_promote_unsynced(self) -> bool:
        mirroring = self.mirroring
        may = mirroring is not None and mirroring.promotes_unsynced_on_failure
        record = self.replica.record
        if not may and record is not None and self._refused_epoch != record.epoch:
            self._refused_epoch = record.epoch
            _log.warning(
                "queue has no master: no mirror is synchronised, and ha-promote-on-failure "
                "(or that it is a quorum queue) forbids promoting another",
                queue=str(self),
                epoch=record.epoch,
            )
        return may

    def lead_elsewhere(self, replica: Replica) -> None:
        self._registry.disk_refuses(self.name[0])

    def lead(self, replica: Replica) -> MasterBacking:
        self.note("leads")
        master = self._parts.leadership.lead(self.name, replica, self._level)
        replica.mirror = None
        self.sync = Synchronisation(self.name, replica, lambda: self.mirroring, self._parts.sync)
        self.sync.begin(master)
        return master

    def step_down(self, replica: Replica) -> None:
        assert replica.master is not None, "only a master steps down"
        self._depose(replica.master)

    def retire(self) -> Levels:
        """Stop taking part: this replica's session has ended. Return what it had."""
        self.replica.is_stopped = True
        if self.replica.master is not None:
            self._depose(self.replica.master)
        return self.levels_left()

    def _depose(self, master: MasterBacking) -> None:
        self.note("is deposed")
        is_mirrored = self.name in self._parts.view.groups
        if self._parts.leadership.depose(self.name, master, is_mirrored):
            _log.warning("master is deposed", queue=str(self))
            self.is_abandoned = True

    def levels_left(self) -> Levels:
        """Files of this copy that no queue uses any more."""
        mirror, master = self.replica.mirror, self.replica.master
        log = stream_copy_of(self.replica)
        if log is not None:
            return {0: log} if self.is_abandoned or master is None else {}
        if master is not None:
            return master.level_queues() if self.is_abandoned else {}
        return {} if mirror is None else mirror.levels

    def stopped(self, replica: Replica, reason: str) -> None:
        self.note("stops", reason)
        _log.info("replica has stopped", queue=str(self), reason=reason)
        self._registry.replica_stopped(self, reason)

    # The disk.

    def _level(self, number: int) -> VariableQueue:
        level = self._parts.files.level(self.name, number)
        level.next_sequence = max(level.next_sequence, self._first_sequence)
        return level

    @property
    def _first_sequence(self) -> int:
        """First number that a master of this epoch gives; 0 for a mirror, which is told numbers."""
        record = self.replica.record
        is_led = record is not None and record.leader == self.replica.me.id
        return first_sequence_of(record.epoch) if record is not None and is_led else 0

    def disk_failed(self) -> None:
        """The others go on without this copy, if one of them has everything."""
        if not self._is_disk_refusing:
            self._is_disk_refusing = True
            self.note("its disk refuses a write")
            _log.warning(
                "disk refuses what the master sends: the others go on without this copy, or the "
                "queue waits for room if no other copy has all that was confirmed",
                queue=str(self),
            )
        self._parts.effects.at_end_of_turn(self.replica.give_up)
