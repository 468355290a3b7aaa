"""One node's copy of the queue, through one membership: the `ReplicaHost`, and the master's desk.

A master takes publishes by number, each once, and answers them when they are safe and the lease
holds; consumers get messages from it, and acknowledge, return or keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cluster_simulation.disk import SavedDisk, SimDisk
from cluster_simulation.publishers import Span
from cluster_simulation.synchronising import SimSynchronising
from warren.mirror.frames import Frame, Payload
from warren.mirror.gm_events import Timer
from warren.mirror.group_record import GroupRecord, Member, SessionGone
from warren.mirror.instructions import first_sequence_of
from warren.mirror.master import MasterBacking
from warren.mirror.mirror import Mirror
from warren.mirror.reach import is_believed
from warren.mirror.rejoining import Remains
from warren.mirror.replica import Replica
from warren.mirror.synchroniser import Synchroniser
from warren.queues.priority_backing import PriorityBacking
from warren.storage.variable_queue import VariableQueue
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from cluster_simulation.node import SimNode

UID: Final = "queue-1"
DISK_US: Final = 8_000
"""The longest that a disk takes for what it does at once."""


class Desk:
    """The answers to one origin's publishes. `origin` is what makes it one of another node."""

    def __init__(self, copy: SimCopy, origin: str) -> None:
        self.copy = copy
        self.origin = origin

    def confirmed(self, sequence: int) -> None:
        self.copy.settled(self.origin, sequence, True)

    def rejected(self, sequence: int) -> None:
        self.copy.settled(self.origin, sequence, False)


class LocalDesk:
    """That of the master's own node, whose publishes the master counts itself."""

    origin = None

    def __init__(self, copy: SimCopy) -> None:
        self.copy = copy

    def confirmed(self, sequence: int) -> None:
        self.copy.settled(self.copy.origin, sequence, True)

    def rejected(self, sequence: int) -> None:
        self.copy.settled(self.copy.origin, sequence, False)


class SimCopy:
    master_class = MasterBacking

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.world = node.world
        self.witness = node.world.witness
        self.schedule = node.schedule
        self.dice = node.schedule.random
        self.disk = SimDisk(self.dice.random() < 0.3, self._work_on_disk_soon)
        self.synchroniser: Synchroniser | None = None
        self.has_ended = False
        self.outstanding: dict[tuple[int, int], QueuedMessage] = {}
        """What consumers have."""
        self._desks: dict[str, Desk | LocalDesk] = {}
        self._pending: set[tuple[str, int]] = set()
        self._answers: list[tuple[str, int, bool]] = []
        self._refused: set[tuple[str, int]] = set()
        self._inherited: dict[str, int] = {}
        self._is_flush_due = self._is_disk_due = False
        self.replica = Replica(node.new_member(), UID, self)

    # Beginning and end.

    def found(self) -> None:
        self.replica.record_changed(None, 0)
        self.replica.mirror = self._make_mirror()
        self.replica.found()

    def take_part(self, saved: SavedDisk) -> None:
        """Be a mirror; or lead again, with what an earlier life left."""
        record, revision = self.node.stored
        self.tell_ends()
        mirror = self._make_mirror()
        mirror.adopt(self.disk.restore(saved))
        self.replica.record_changed(record, revision)
        for peer in self.world.nodes:
            if peer != self.node.name and not self.world.is_linked(self.node.name, peer):
                self.replica.link_down(peer)
        self.replica.join(mirror)

    def _make_mirror(self) -> Mirror:
        return Mirror(self.replica.me.id, self.disk.level, self._tell_held, self._disk_failed)

    def tell_ends(self) -> None:
        """Somebody may be in the record whose session ended before we heard of it."""
        record = self.node.stored.record
        for member in () if record is None else record.live:
            if self.node.sessions.get(member.node) != member.incarnation:
                self.replica.session_ended(SessionGone(member.node, member.incarnation))

    def end(self) -> SavedDisk:
        """The node was killed, or whoever this was in the group is gone."""
        self.has_ended = True
        return self.disk.saved(self.dice)

    def later(self, delay_us: int, do: Callable[[], None]) -> None:
        def call() -> None:
            if not self.has_ended:
                do()

        self.schedule.after(delay_us, lambda: self.node.when_running(call))

    # What a replica needs.

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        def arrive(node: SimNode) -> None:
            if node.copy is not None:
                node.copy.replica.frame_arrived(frame, payloads)

        self.world.network.send(self.node.name, to.node, arrive)

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        store = self.world.store

        def told(is_stored: bool) -> None:
            if not self.has_ended:
                self.node.read_store(len(store.history))
                answered(is_stored)

        store.commit(
            self.node,
            (record, revision),
            gone,
            lambda is_stored: self.node.when_running(lambda: told(is_stored)),
        )

    def read_record(self) -> None:
        self.world.store.read(self.node.name)

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        self.later(delay_ms * 1_000, lambda: self.replica.timer_fired(timer))

    def _tell_held(self, number: int) -> None:
        record = self.replica.record
        leader = None if record is None else record.find(record.leader)
        if self.replica.master is not None:
            self.replica.master.settle()
        elif record is not None and leader is not None:
            me, epoch = self.replica.me.id, record.epoch

            def arrive(node: SimNode) -> None:
                if node.copy is not None:
                    node.copy.hear_held(me, epoch, number)

            self.world.network.send(self.node.name, leader.node, arrive)

    def tell_kept(self, leader: Member, epoch: int, remains: Remains) -> None:
        me = self.replica.me.id

        def arrive(node: SimNode) -> None:
            if node.copy is not None:
                node.copy.replica.kept(me, epoch, remains)

        self.world.network.send(self.node.name, leader.node, arrive)

    def hear_held(self, member: str, epoch: int, number: int) -> None:
        self.replica.held(member, epoch, number)
        if self.synchroniser is not None:
            self.synchroniser.wake()

    def hear_out_of_reach(self, member: str, suspect: str) -> None:
        record = self.replica.record
        is_leading = self.replica.master is not None and record is not None
        if is_leading and is_believed(record, member, suspect):
            self.replica.expel(suspect)

    def _disk_failed(self) -> None:
        self.replica.give_up()

    def lead_elsewhere(self, replica: Replica) -> None:
        """Nodes know of each other's full disks from their alarms."""
        record = replica.record
        assert record is not None
        for member in sorted(record.live, key=lambda each: each.joined_view):
            is_full = self.world.nodes[member.node].is_disk_full
            if member.id in record.insync and not is_full:
                replica.hand_over(member.id, keeps_copy=True)
                return

    def flush_due(self, replica: Replica, delay_ms: int) -> None:
        if delay_ms:
            self.later(delay_ms * 1_000, self.replica.flush)
        elif not self._is_flush_due:
            self._is_flush_due = True
            self.later(0, self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        self.replica.flush()

    def may_promote_unsynced(self) -> bool:
        return self.world.mirroring.promotes_unsynced_on_failure

    def lead(self, replica: Replica) -> MasterBacking:
        mirror = replica.mirror
        assert mirror is not None
        master = self.master_class(self._backing_of(mirror), self.origin, replica)
        master.inherit(mirror, self._first_sequence)
        self._inherited = {**master.numbers, self.origin: master.local_number}
        replica.mirror = None
        self.synchroniser = Synchroniser(master, SimSynchronising(self))
        return master

    def _backing_of(self, mirror: Mirror) -> Any:
        if self.world.max_priority is None:
            return mirror.levels[0] if 0 in mirror.levels else self.disk.level(0)
        backing = PriorityBacking(self.world.max_priority, self._new_level)
        for number, level in mirror.levels.items():
            backing.add_level(number, level)
        return backing

    def _new_level(self, number: int) -> VariableQueue:
        level = self.disk.level(number)
        level.next_sequence = self._first_sequence
        return level

    @property
    def _first_sequence(self) -> int:
        record = self.replica.record
        assert record is not None, "it says that this one leads"
        return first_sequence_of(record.epoch)

    def step_down(self, replica: Replica) -> None:
        assert replica.master is not None
        replica.master.depose()

    def stopped(self, replica: Replica, reason: str) -> None:
        if not self.has_ended:
            self.has_ended = True
            self.node.forget(self)

    # The disk.

    def _work_on_disk_soon(self) -> None:
        if not self._is_disk_due:
            self._is_disk_due = True
            self.later(self.dice.randint(100, DISK_US), self._work_on_disk)

    def _work_on_disk(self) -> None:
        self._is_disk_due = False
        if self.node.is_disk_full:
            self.disk.refuse()
            if not self.has_ended:
                self._work_on_disk_soon()
        elif self.disk.work(self.dice):
            self._work_on_disk_soon()
        if self.synchroniser is not None:
            self.synchroniser.wake()

    @property
    def levels(self) -> dict[int, VariableQueue]:
        mirror = self.replica.mirror
        return self.disk.levels if mirror is None else mirror.levels

    # Publishers.

    @property
    def origin(self) -> str:
        return self.node.origin

    def published(self, origin: str, span: Span, publishes: list[tuple[int, Message]]) -> None:
        master = self.replica.master
        if master is None or master.is_deposed or self.has_ended:
            return
        for number, message in publishes:
            last = max(self._received(master, origin), span.lowest - 1)
            if number == last + 1:
                self._publish(master, origin, number, message)
                if number <= span.doubtful:
                    master.mark_redelivered(message)
            elif number <= last:
                self._answer_again(master, origin, number)

    def _received(self, master: MasterBacking, origin: str) -> int:
        if origin == self.origin:
            return int(master.local_number)
        return int(master.numbers.get(origin, 0))

    def _publish(self, master: MasterBacking, origin: str, number: int, message: Message) -> None:
        level = master.level_number(message)
        sequence = master.next_sequences().get(level, 0)
        self.witness.taken(int(message.body), origin, level, sequence)
        self._pending.add((origin, number))
        desk = self._desks.get(origin)
        if desk is None:
            desk = LocalDesk(self) if origin == self.origin else Desk(self, origin)
            self._desks[origin] = desk
        if origin == self.origin:
            master.local_number = number - 1
        master.publish(message, 0, desk, number)

    def _answer_again(self, master: MasterBacking, origin: str, number: int) -> None:
        if (origin, number) in self._pending:
            return
        if number <= self._inherited.get(origin, 0) and not master.is_settled:
            return  # asked again later, until all copies are known to have it
        if not master.is_frozen:
            self.settled(origin, number, (origin, number) not in self._refused)

    def settled(self, origin: str, number: int, is_confirmed: bool) -> None:
        self._pending.discard((origin, number))
        if not is_confirmed:
            self._refused.add((origin, number))
        self._answers.append((origin, number, is_confirmed))
        self.act()

    def act(self) -> None:
        """Say what may be said, if the lease holds."""
        if self._answers and not self.has_ended and self.node.may_act:
            answers, self._answers = self._answers, []
            for origin, number, is_confirmed in answers:
                self.world.publishers.answer(self, origin, number, is_confirmed)

    # Consumers.

    @property
    def is_serving(self) -> bool:
        master = self.replica.master
        return (
            master is not None
            and not master.is_deposed
            and not self.has_ended
            and self.node.may_act
        )

    def deliver(self, needs_ack: bool) -> None:
        master = self.replica.master
        if master is None or not self.is_serving:
            return
        queued = master.fetch(needs_ack)
        if queued is None:
            return
        level = master.level_number(queued.message)
        place = (level, queued.sequence)
        self.witness.delivered(self, queued, place)
        if not needs_ack:
            self.witness.acked(self, queued, place)
            return
        self.outstanding[place] = queued
        fate = self.dice.random()
        if fate < 0.95 or self.world.is_peaceful:
            delay_us = self.dice.randint(1_000, 100_000)
            settle = self._ack_upto if fate < 0.15 else self._return
            self.later(delay_us, lambda: settle(place, is_ack=fate < 0.75))

    def _return(self, place: tuple[int, int], is_ack: bool) -> None:
        master, queued = self.replica.master, self.outstanding.pop(place, None)
        if master is None or queued is None or master.is_deposed:
            return
        if is_ack:
            self.witness.acked(self, queued, place)
            master.ack([queued])
        else:
            self.witness.returned(self, queued, place)
            queued.redelivered = True  # as a queue marks it
            master.requeue([queued])

    def _ack_upto(self, place: tuple[int, int], is_ack: bool) -> None:
        """Acknowledge all of a level that consumers have, up to this one."""
        for level, sequence in sorted(self.outstanding):
            if level == place[0] and sequence <= place[1]:
                self._return((level, sequence), is_ack)

    def lose_consumers(self) -> None:
        """Their connections break: all that they had comes back."""
        for place in tuple(self.outstanding):
            self._return(place, is_ack=False)

    def purge(self) -> None:
        master = self.replica.master
        if master is not None and self.is_serving:
            self.witness.purged(self)
            master.purge()
