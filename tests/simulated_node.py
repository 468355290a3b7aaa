"""A node through all its lives, and its replica of the queue: for `cluster_simulation`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from replica_world import Replica as Disk
from replica_world import message
from simulated_store import LEASE_MS, Stored
from simulated_synchronising import SimSynchronising
from warren.mirror.frames import Frame, Payload
from warren.mirror.gm_events import Timer
from warren.mirror.group_record import GroupRecord, Member, SessionGone, make_member_id
from warren.mirror.master import MasterBacking
from warren.mirror.mirror import Mirror
from warren.mirror.replica import Replica
from warren.mirror.synchroniser import Synchroniser
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from cluster_simulation import World

LEASE_MARGIN_MS: Final = 1_000
KEEP_ALIVE_MS: Final = 2_000
SUSPECT_MS: Final = 1_500
"""A mirror that cannot be reached for so long is put out."""
UID: Final = "queue-1"
HOME: Final = "a"


class SimNode:
    """One node through all its lives. What is on its disk outlives them."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.schedule = world.schedule
        self.name = name
        self.inbox_of_store: deque[Callable[[SimNode], None]] = deque()
        self.sessions: dict[str, str] = {}
        self.stored = Stored()
        self.incarnation = ""
        self.lives = 0
        self.is_up = False
        self.has_session = False
        self.is_paused = False
        self.is_cut_from_store = False
        self.part: SimReplica | None = None
        self.saved: SavedDisk | None = None
        self._waiting: list[Callable[[], None]] = []
        self._tenure_ends_ms = 0.0
        self._members = 0
        self._down_since: dict[str, float] = {}

    # Life.

    def start(self) -> None:
        self.lives += 1
        self.incarnation = f"life{self.lives}"
        self.is_up = True
        self.is_paused = False
        self.inbox_of_store.clear()
        self._begin_session()

    def _begin_session(self) -> None:
        life = self.incarnation

        def attempt() -> None:
            if not self.is_up or self.incarnation != life:
                return
            if self.is_cut_from_store or not self.world.store.open_session(self.name, life):
                self.schedule.after(500, attempt)
                return
            self.has_session = True
            self._tenure_ends_ms = self.schedule.now_ms + LEASE_MS - LEASE_MARGIN_MS
            self.inbox_of_store.clear()
            self.sessions = dict(self.world.store.sessions)
            self.stored = self.world.store.stored
            self.world.links_of(self.name)
            self._take_part()
            self._keep_alive(life)

        attempt()

    def _keep_alive(self, life: str) -> None:
        def again() -> None:
            if not self.is_up or self.incarnation != life:
                return
            asked_at = self.schedule.now_ms
            if self.is_paused:
                self._waiting.append(again)
                return
            if not self.is_cut_from_store:
                if self.world.store.keep_alive(self.name, life):
                    self._tenure_ends_ms = asked_at + LEASE_MS - LEASE_MARGIN_MS
                    self.act()
                else:
                    self._live_again()
                    return
            self.schedule.after(KEEP_ALIVE_MS, again)

        self.schedule.after(KEEP_ALIVE_MS, again)

    def _live_again(self) -> None:
        """The session was lost while we lived: what we have is that of a former member."""
        if self.part is not None:
            self.saved = self.part.crash()
            self.part = None
        self.has_session = False
        self.lives += 1
        self.incarnation = f"life{self.lives}"
        self._begin_session()

    def kill(self) -> None:
        self.is_up = self.has_session = False
        if self.part is not None:
            self.saved = self.part.crash()
            self.part = None
        self._waiting.clear()
        self._down_since.clear()
        self.world.reset_links(self.name)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        waiting, self._waiting = self._waiting, []
        for do in waiting:
            do()
        self.read_store_soon()

    @property
    def may_act(self) -> bool:
        """The lease holds, by the clock here, so nobody else leads what this node leads."""
        return self.is_up and not self.is_paused and self.schedule.now_ms < self._tenure_ends_ms

    def when_running(self, do: Callable[[], None]) -> None:
        life = self.incarnation

        def run() -> None:
            if self.is_up and self.incarnation == life:
                if self.is_paused:
                    self._waiting.append(run)
                else:
                    do()

        run()

    # The store.

    def read_store_soon(self) -> None:
        self.schedule.after(self.schedule.delay(0.2, 5), self._read_store)

    def _read_store(self) -> None:
        if not self.is_up or self.is_paused or self.is_cut_from_store:
            return
        while self.inbox_of_store:
            self.inbox_of_store.popleft()(self)

    def session_opened(self, node: str, incarnation: str) -> None:
        self.sessions[node] = incarnation

    def session_ended(self, node: str, incarnation: str) -> None:
        if self.sessions.get(node) == incarnation:
            del self.sessions[node]
        if self.part is not None:
            self.part.replica.session_ended(SessionGone(node, incarnation))

    def record_stored(self, stored: Stored) -> None:
        self.stored = stored
        if self.part is not None:
            self.part.tell_ends()
            self.part.replica.record_changed(stored.record, stored.revision)
        self._take_part()

    def _take_part(self) -> None:
        if self.part is None and self.has_session:
            self.part = SimReplica(self, self.saved)
            self.saved = None
            self.part.begin()

    # Links.

    def link_changed(self, peer: str, is_up: bool) -> None:
        if is_up:
            self._down_since.pop(peer, None)
        else:
            self._down_since.setdefault(peer, self.schedule.now_ms)
            self.schedule.after(SUSPECT_MS, lambda: self.when_running(lambda: self._suspect(peer)))
        if self.part is not None:
            replica = self.part.replica
            (replica.link_up if is_up else replica.link_down)(peer)

    def _suspect(self, peer: str) -> None:
        since = self._down_since.get(peer)
        if since is None or self.schedule.now_ms - since < SUSPECT_MS or self.part is None:
            return
        replica = self.part.replica
        if replica.master is not None and replica.record is not None:
            for member in replica.record.live:
                if member.node == peer:
                    replica.expel(member.id)

    def new_member(self) -> Member:
        self._members += 1
        member_id = make_member_id(self.name, self.incarnation, self._members)
        return Member(member_id, self.name, self.incarnation)

    def act(self) -> None:
        if self.part is not None:
            self.part.act()


@dataclass
class SavedDisk:
    """What a killed node's disk has: messages that were synced, by number."""

    messages: list[tuple[int, bytes]]


class Inbox:
    """The master's answers to one node's publishes."""

    def __init__(self, part: SimReplica, origin: str) -> None:
        self.part = part
        self.origin = origin

    def confirmed(self, sequence: int) -> None:
        self.part.confirm(self.origin, sequence)

    def rejected(self, sequence: int) -> None:
        raise AssertionError("disks here take everything")


class SimReplica:
    """The `ReplicaHost` of one life of one node."""

    def __init__(self, node: SimNode, saved: SavedDisk | None) -> None:
        self.node = node
        self.world = node.world
        self.schedule = node.schedule
        self.disk = Disk(is_lazy=self.schedule.random.random() < 0.3)
        self.saved = saved
        self.synchroniser: Synchroniser | None = None
        self.has_ended = False
        self.inboxes: dict[str, Inbox] = {}
        self.received: dict[str, int] = {}
        self.unacked: dict[int, QueuedMessage] = {}
        self.epochs: list[int] = []
        self._confirms: list[tuple[str, int]] = []
        self._inherited: dict[str, int] = {}
        self._is_due = False
        self.replica = Replica(node.new_member(), UID, self)

    def begin(self) -> None:
        stored = self.node.stored
        replica = self.replica
        self.tell_ends()
        replica.record_changed(stored.record, stored.revision)
        mirror = self._make_mirror()
        if stored.record is None and self.node.name == HOME:
            replica.mirror = mirror
            replica.found()
        else:
            replica.join(mirror)
        for peer in self.world.nodes:
            if peer != self.node.name and not self.world.is_linked(self.node.name, peer):
                replica.link_down(peer)

    def tell_ends(self) -> None:
        """Somebody may be in the record whose session ended before we heard of it."""
        record = self.node.stored.record
        for member in () if record is None else record.live:
            if self.node.sessions.get(member.node) != member.incarnation:
                self.replica.session_ended(SessionGone(member.node, member.incarnation))

    def _make_mirror(self) -> Mirror:
        mirror = Mirror(self.replica.me.id, self.disk.level, self._on_held, self._on_failed)
        if self.saved is not None and self.saved.messages:
            level = mirror.levels[0] = self.disk.level(0)
            for sequence, body in self.saved.messages:
                level.next_sequence = sequence
                level.publish(message(int(body)), 0, None, 0)
            self.disk.sync()
        return mirror

    def crash(self) -> SavedDisk:
        """What a kill leaves: no more than was synced."""
        self.has_ended = True
        index = self.disk.indexes.get(0)
        live = [] if index is None else sorted(index.live.items())
        synced = [(s, bytes(q.message.body)) for s, q in live if q not in index.unsynced]
        return SavedDisk(synced)

    # What a replica needs.

    def send(self, to: Member, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        self.world.send(
            self.node.name,
            to.node,
            lambda node: node.part and node.part.replica.frame_arrived(frame, payloads),
        )

    def propose(
        self,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        node = self.node

        def arrive() -> None:
            if node.is_cut_from_store:
                self.schedule.after(200, arrive)
                return
            is_stored = self.world.store.commit(record, revision, gone)
            self.schedule.after(self.schedule.delay(0.2, 3), lambda: answer(is_stored))

        def answer(is_stored: bool) -> None:
            if self.has_ended:
                return
            if node.is_cut_from_store:
                self.schedule.after(200, lambda: answer(is_stored))
            else:
                node.when_running(lambda: None if self.has_ended else told(is_stored))

        def told(is_stored: bool) -> None:
            node._read_store()
            answered(is_stored)

        self.schedule.after(self.schedule.delay(0.2, 3), arrive)

    def read_record(self) -> None:
        self.node.read_store_soon()

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        def fire() -> None:
            if not self.has_ended:
                self.node.when_running(lambda: self.replica.timer_fired(timer))

        self.schedule.after(delay_ms, fire)

    def _on_held(self, number: int) -> None:
        record = self.replica.record
        leader = None if record is None else record.find(record.leader)
        if record is None or leader is None:
            return
        me, epoch = self.replica.me.id, record.epoch
        self.world.send(
            self.node.name,
            leader.node,
            lambda node: node.part and node.part.replica.held(me, epoch, number),
        )

    def _on_failed(self) -> None:
        raise AssertionError("disks here take everything")

    def flush_due(self, replica: Replica) -> None:
        if not self._is_due:
            self._is_due = True
            self.schedule.after(0, self._flush)

    def _flush(self) -> None:
        self._is_due = False
        if not self.has_ended:
            self.node.when_running(self.replica.flush)

    def may_promote_unsynced(self) -> bool:
        return False

    def lead(self, replica: Replica) -> MasterBacking:
        mirror = replica.mirror
        assert mirror is not None
        level = mirror.levels[0] if 0 in mirror.levels else self.disk.level(0)
        master = MasterBacking(level, self.origin, replica)
        master.inherit(mirror)
        self.received = dict(master.numbers)
        self._inherited = dict(master.numbers)
        replica.mirror = None
        self.synchroniser = Synchroniser(master, SimSynchronising(self))
        return master

    def work_on_disk(self) -> None:
        """What is to be synced, paged out and read, now and then."""
        random = self.schedule.random
        if random.random() < 0.7:
            self.disk.sync()
        if random.random() < 0.1:
            self.disk.page()
        for index in self.disk.indexes.values():
            index.turn()
            if random.random() < 0.5:
                index.finish_reads()
        if self.synchroniser is not None:
            self.synchroniser.consider(is_automatic=True)

    def step_down(self, replica: Replica) -> None:
        pass

    def stopped(self, replica: Replica, reason: str) -> None:
        """Out of the record: as a new member we may join again, and what we have may yet count."""
        if not self.has_ended:
            self.node.saved = self.crash()
            self.node.part = None
            self.schedule.after(100, lambda: self.node.when_running(self.node._take_part))

    # Clients.

    @property
    def origin(self) -> str:
        return f"{self.node.name}/{self.node.incarnation}"

    def publish_arrived(self, origin: str, lowest: int, number: int, body: int) -> None:
        master = self.replica.master
        if master is None or master.is_deposed or self.has_ended:
            return
        last = max(self.received.get(origin, 0), lowest - 1)
        if number <= last:
            if number <= self._inherited.get(origin, 0) and not master.is_settled:
                return  # asked again later, until all copies are known to have it
            if (origin, number) not in self.world.pending_at(self):
                self.confirm(origin, number)
            return
        if number != last + 1:
            return
        self.received[origin] = number
        inbox = self.inboxes.setdefault(origin, Inbox(self, origin))
        self.world.note_pending(self, origin, number)
        master.publish(message(body), 0, inbox, number)

    def confirm(self, origin: str, number: int) -> None:
        self._confirms.append((origin, number))
        self.act()

    def act(self) -> None:
        """Say what may be said, if the lease still holds."""
        if self.has_ended or not self.node.may_act:
            return
        confirms, self._confirms = self._confirms, []
        for origin, number in confirms:
            self.world.answered(self, origin, number)

    def deliver_one(self) -> None:
        master = self.replica.master
        if master is None or self.has_ended or not self.node.may_act or master.is_deposed:
            return
        queued = master.fetch(True)
        if queued is None:
            for index in self.disk.indexes.values():
                index.finish_reads()
            return
        self.world.delivered(self, int(queued.message.body))
        self.schedule.after(self.schedule.delay(1, 300), lambda: self._ack(queued))

    def _ack(self, queued: QueuedMessage) -> None:
        def ack() -> None:
            master = self.replica.master
            if self.has_ended or master is None:
                return
            if self.schedule.random.random() < 0.2:
                master.requeue([queued])
            else:
                self.world.acked.add(int(queued.message.body))
                master.ack([queued])

        self.node.when_running(ack)
