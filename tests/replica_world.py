"""A master and its mirrors in one place: a ring that is a loop, disks that sync when told to."""

from __future__ import annotations

from collections.abc import Callable

from warren.flow.credit import Credit
from warren.queues.backing import BackingQueue
from warren.queues.priority_backing import PriorityBacking
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.sync_pace import SyncSettings
from warren.replication.classic.synchroniser import SyncEvent, Synchroniser
from warren.storage.index.segment import SEGMENT_SHIFT, Segment, places_of
from warren.storage.index.states import DEAD, GATHERED, JOURNALED, SEGMENTED
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

TRANSIENT = PropertyBlock(b"\x00\x00")
PERSISTENT = PropertyBlock(b"\x10\x00\x02")


class ReplicaIndex:
    """The index and the reader of one queue on a disk that is only as fast as the test."""

    def __init__(self) -> None:
        self.on_segmented: Callable[[], None] | None = None
        self.on_stored: Callable[[], None] | None = None
        self.debtor: object = None
        self.is_patient = False
        self.embed_below = 4_096
        self.live: dict[int, QueuedMessage] = {}
        self.used: set[int] = set()
        self.next_sequence = self.segmented_below = 0
        self.redelivered_below = 0
        self.delivered: set[int] = set()
        """Numbers of messages that the disk knows to have been delivered."""
        self.unsynced: list[QueuedMessage] = []
        self.credit = Credit(1 << 30)
        self.soon: list[Callable[[], None]] = []
        self.reads: list[Callable[[], None]] = []

    @property
    def segments(self) -> dict[int, Segment]:
        """As far as the real one is asked for them: which numbers are alive."""
        segments: dict[int, Segment] = {}
        for sequence in self.live:
            number = sequence >> SEGMENT_SHIFT
            segments.setdefault(number, Segment(number)).live |= places_of(sequence, 1)
        return segments

    def close_run(self) -> None: ...

    def commit(self) -> None:
        """Nothing to begin: it syncs when the test wants it to."""

    def publish(self, queued: QueuedMessage) -> None:
        assert queued.sequence not in self.used, "a disk has each number once"
        self.used.add(queued.sequence)
        queued.state = GATHERED
        self.live[queued.sequence] = queued
        self.unsynced.append(queued)

    def write_out(self, queued: QueuedMessage) -> None:
        self.publish(queued)

    def ack(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            if queued.state:
                queued.state = DEAD
                del self.live[queued.sequence]
                self._answer(queued)

    def ack_range(self, start: int, end: int) -> None:
        for sequence in [s for s in self.live if start <= s < end]:
            del self.live[sequence]

    def _answer(self, queued: QueuedMessage) -> None:
        publisher, queued.publisher = queued.publisher, None
        if publisher is not None:
            publisher.confirmed(queued.publisher_sequence)

    def sync(self) -> None:
        unsynced, self.unsynced = self.unsynced, []
        for queued in unsynced:
            if queued.state != DEAD:
                queued.state = JOURNALED
                self._answer(queued)

    def refuse(self) -> None:
        """The disk is full: say no to the publishers of what waits for it."""
        for queued in self.unsynced:
            publisher, queued.publisher = queued.publisher, None
            if publisher is not None:
                publisher.rejected(queued.publisher_sequence)

    def page(self) -> None:
        """Everything synced is in segments now, and may leave memory."""
        self.sync()
        for queued in self.live.values():
            queued.state = SEGMENTED
        if self.on_segmented is not None:
            self.on_segmented()
        self.turn()

    def turn(self) -> None:
        while self.soon:
            self.soon.pop()()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def read(
        self,
        index: ReplicaIndex,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        def finish() -> None:
            found = [s for s in sorted(self.live) if span[0] <= s < span[1]][:3]
            done([self._copy(self.live[sequence]) for sequence in found])

        self.reads.append(finish)

    async def fill(self, index: ReplicaIndex, entries: list[QueuedMessage]) -> None:
        assert not entries, "what it has, it has with the body"

    def finish_reads(self) -> None:
        while self.reads:
            self.reads.pop()()

    def _copy(self, queued: QueuedMessage) -> QueuedMessage:
        copy = QueuedMessage(queued.message, queued.sequence, queued.expires_at_ms)
        copy.size, copy.state = queued.size, SEGMENTED
        copy.redelivered = self.was_delivered(queued.sequence)
        self.live[queued.sequence] = copy
        return copy

    def was_delivered(self, sequence: int) -> bool:
        return sequence < self.redelivered_below or sequence in self.delivered

    def note_delivered(self, index: ReplicaIndex, runs: list[tuple[int, int]]) -> None:
        for first, count in runs:
            index.delivered.update(range(first, first + count))

    def mode_changed(self, queue: VariableQueue, is_lazy: bool) -> None: ...

    def scatter_now(self) -> None: ...


class Replica:
    """The levels of one copy, and their disk."""

    def __init__(self, is_lazy: bool = False) -> None:
        self.is_lazy = is_lazy
        self.indexes: dict[int, ReplicaIndex] = {}
        self.levels: dict[int, VariableQueue] = {}

    def level(self, number: int) -> VariableQueue:
        index = self.indexes[number] = ReplicaIndex()
        queue = self.levels[number] = VariableQueue(lambda: index, True, index)
        queue.set_lazy(self.is_lazy)
        return queue

    def sync(self) -> None:
        for index in self.indexes.values():
            index.sync()

    def page(self) -> None:
        for index in self.indexes.values():
            index.page()

    def drained(self) -> dict[int, list[tuple[int, bytes]]]:
        """What is there, by level, in order; it is gone afterwards."""
        return {n: _drain(q, self.indexes[n]) for n, q in self.levels.items() if q.length}


def _drain(queue: VariableQueue, index: ReplicaIndex) -> list[tuple[int, bytes]]:
    taken: list[tuple[int, bytes]] = []
    for _ in range(100_000):
        if not queue.length:
            return taken
        queued = queue.fetch(False)
        if queued is None:
            index.finish_reads()
        else:
            taken.append((queued.sequence, queued.message.body))
    raise AssertionError("the queue does not end")


class ReplicaWorld:
    """A master and mirrors; broadcasts wait in `sent` until `deliver`."""

    def __init__(
        self,
        max_priority: int | None = None,
        is_lazy: bool = False,
        backing: type[PriorityBacking] = PriorityBacking,
    ) -> None:
        self.here = Replica()
        self.sent: list[bytes] = []
        self.due: list[MasterBacking] = []
        self.complete: list[str] = []
        self.is_handing_over = False
        self.mirrors: dict[str, Mirror] = {}
        self.replicas: dict[str, Replica] = {}
        self.failed: list[str] = []
        self.is_lazy = is_lazy
        inner: BackingQueue
        if max_priority is None:
            inner = self.here.level(0)
        else:
            inner = backing(max_priority, self.here.level)
        self.master = MasterBacking(inner, "here", self)
        self.synchroniser = Synchroniser(self.master, self)
        self.settings = SyncSettings(batch_size=5)
        self.is_sync_paused = False
        self.is_sync_blocking = False
        self.time_ms = 0
        self.steps: list[tuple[int, Callable[[], None]]] = []
        self.told: list[SyncEvent] = []
        self.caught: dict[str, tuple[int, int]] = {}

    # The ring.

    def broadcast(self, payload: bytes) -> None:
        self.sent.append(payload)

    def flush_due(self, master: MasterBacking, urgency: int) -> None:
        self.due.append(master)

    def refused(self) -> bool:
        """True if a mirror is about to lead: none is, unless a test says so."""
        return self.is_handing_over

    def covered(self, member: str) -> None:
        self.complete.append(member)

    # What a synchroniser asks for.

    def now_ms(self) -> int:
        return self.time_ms

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None:
        self.steps.append((self.time_ms + delay_ms, do))

    def sync_settings(self) -> SyncSettings:
        return self.settings

    def sync_told(self, event: SyncEvent) -> None:
        self.told.append(event)

    def caught_up(self, member: str, kept: int, sent: int) -> None:
        self.caught[member] = (kept, sent)

    # What a test does.

    def step(self) -> bool:
        """Everything that is due goes on by one step; False if nothing is."""
        for index in self.here.indexes.values():
            index.finish_reads()
        due = [do for at_ms, do in self.steps if at_ms <= self.time_ms]
        self.steps = [(at_ms, do) for at_ms, do in self.steps if at_ms > self.time_ms]
        for do in due:
            do()
        return bool(due)

    def finish_sync(self) -> None:
        for _ in range(10_000):
            self.deliver()
            self.sync_all()
            self.synchroniser.wake()
            if not self.step() and not self.synchroniser.is_syncing:
                return
        raise AssertionError("the synchronisation does not end")

    def join(self, name: str) -> Mirror:
        replica = self.replicas[name] = Replica(self.is_lazy)
        mirror = Mirror(
            name,
            replica.level,
            lambda number, _: self.master.held(name, number),
            lambda: self.failed.append(name),
        )
        self.mirrors[name] = mirror
        self.master.begin_member(name)
        return mirror

    def end_turn(self) -> None:
        due, self.due = self.due, []
        for master in due:
            master.flush()

    def deliver(self) -> None:
        self.end_turn()
        sent, self.sent = self.sent, []
        for payload in sent:
            for mirror in self.mirrors.values():
                mirror.handle(payload)

    def sync_all(self) -> None:
        self.here.sync()
        for replica in self.replicas.values():
            replica.sync()


class Confirmed:
    """A channel that notes what it hears."""

    origin = None

    def __init__(self) -> None:
        self.confirmations: list[int] = []
        self.rejections: list[int] = []

    def confirmed(self, sequence: int) -> None:
        self.confirmations.append(sequence)

    def rejected(self, sequence: int) -> None:
        self.rejections.append(sequence)


def message(number: int, properties: PropertyBlock = PERSISTENT) -> Message:
    return Message(b"\x00\x01q", properties, b"%d" % number)


def with_priority(number: int, priority: int) -> Message:
    """Persistent, too: the delivery mode comes before the priority."""
    return Message(b"\x00\x01q", PropertyBlock(bytes([0x18, 0, 2, priority])), b"%d" % number)
