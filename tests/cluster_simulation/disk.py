"""The disk of a simulated node: it syncs in its own time, and a kill leaves what it had synced.

`SimStorage` is the storage of the virtual host in one process; what it had synced outlives the
process as a `SavedDisk`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from gm_invariants import Violation
from replica_world import ReplicaIndex
from warren.queues.boundary import RetryingPublisher
from warren.storage.index.states import JOURNALED, SEGMENTED
from warren.storage.queue.variable_queue import VariableQueue
from warren.storage.vhost_storage import level_name
from warren.wire.codec import Message, QueuedMessage

FLUSH_S: Final = 0.002


class Written(NamedTuple):
    """A message as the disk has it."""

    sequence: int
    message: Message
    is_redelivered: bool
    """True if a consumer may have had it, as far as the disk knows."""


class SavedQueue(NamedTuple):
    written: tuple[Written, ...]
    used: frozenset[int]
    """Numbers that the disk has heard of, also of messages that are gone."""


SavedDisk = dict[str, SavedQueue]
"""By the name that the storage has for a queue, or for one of its levels."""


class SimIndex(ReplicaIndex):
    """`on_work` is told when there is something to do; that a message is gone is synced too."""

    def __init__(self, on_work: Callable[[], None], may_double: Callable[[], bool]) -> None:
        super().__init__()
        self._may_double = may_double
        self.bodies: dict[bytes, int] = {}
        """Numbers of messages that are there, by body."""
        self._on_work = on_work
        self._gone: dict[int, QueuedMessage] = {}
        """Removed since the last sync: after a kill they may be there again."""

    def publish(self, queued: QueuedMessage) -> None:
        before = self.bodies.get(queued.message.body)
        if before in self.live and not self._may_double():
            raise Violation(f"{queued.message.body!r} is there twice: {before}, {queued.sequence}")
        super().publish(queued)
        self.bodies[queued.message.body] = queued.sequence
        self._on_work()

    def ack(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            if queued.state in (JOURNALED, SEGMENTED):
                self._gone[queued.sequence] = queued
        super().ack(run)
        self._on_work()

    def ack_range(self, start: int, end: int) -> None:
        gone = [s for s in self.live if start <= s < end]
        self._gone.update((s, self.live[s]) for s in gone)
        super().ack_range(start, end)

    def sync(self) -> None:
        self._gone.clear()
        super().sync()

    def refuse(self) -> None:
        """Publishers are told no; what they published may still be written one day."""
        for queued in tuple(self.unsynced):
            publisher = queued.publisher
            if not isinstance(publisher, RetryingPublisher):
                queued.publisher = None
            if publisher is not None:
                publisher.rejected(queued.publisher_sequence)

    def call_soon(self, callback: Callable[[], None]) -> None:
        super().call_soon(callback)
        self._on_work()

    def read(self, *wanted: object) -> None:
        super().read(*wanted)  # type: ignore[arg-type]
        self._on_work()

    @property
    def is_idle(self) -> bool:
        return not (self.unsynced or self.soon or self.reads)

    def has_safe(self, body: bytes) -> bool:
        queued = self.live.get(self.bodies.get(body, -1))
        return queued is not None and queued.state in (JOURNALED, SEGMENTED)

    def saved(self, dice: random.Random, is_orderly: bool) -> SavedQueue:
        """Return what a kill leaves, or a stop in good order, which writes down who had what."""
        kept = {s: q for s, q in self._gone.items() if not is_orderly and dice.random() < 0.5}
        kept |= {s: q for s, q in self.live.items() if q.state in (JOURNALED, SEGMENTED)}
        written = [
            Written(s, kept[s].message, not is_orderly or self.was_delivered(s))
            for s in sorted(kept)
            if kept[s].message.properties.persistent
        ]
        return SavedQueue(tuple(written), frozenset(self.used))

    def restore(self, backing: VariableQueue, saved: SavedQueue) -> None:
        """Have a backing go on with what an earlier process left."""
        entries = []
        for sequence, message, is_redelivered in saved.written:
            queued = QueuedMessage(message, sequence, 0)
            queued.size = len(message.body)
            queued.state = JOURNALED
            queued.redelivered = is_redelivered
            if is_redelivered:
                self.delivered.add(sequence)
            self.live[sequence] = queued
            self.bodies[message.body] = sequence
            entries.append(queued)
        self.used |= saved.used
        backing.recover_recent(entries, max(saved.used, default=-1) + 1)


class SimStorage:
    """`may_double`: a master may have lost count of publishes, and take some of them twice."""

    def __init__(
        self, saved: SavedDisk, on_work: Callable[[], None], may_double: Callable[[], bool]
    ) -> None:
        self._may_double = may_double
        self.indexes: dict[str, SimIndex] = {}
        self.backings: dict[str, VariableQueue] = {}
        self.is_doubtful = False
        """True if the disk has refused a write and taken none since."""
        self._recovered = dict(saved)
        self._on_work = on_work

    def backing(self, name: str, durable: bool) -> VariableQueue:
        index = self.indexes[name] = SimIndex(self._on_work, self._may_double)
        reader: Any = index  # nobody browses here
        backing = VariableQueue(lambda: index, durable, reader)
        backing.on_deleted = lambda: self._delete(name, index)
        recovered = self._recovered.pop(name, None)
        if recovered is not None:
            index.restore(backing, recovered)
        self.backings[name] = backing
        return backing

    def _delete(self, name: str, index: SimIndex) -> None:
        if self.indexes.get(name) is index:
            del self.indexes[name], self.backings[name]

    def recovered_levels(self, queue: str) -> list[int]:
        prefix = level_name(queue, "")
        return [int(n[len(prefix) :]) for n in self._recovered if n.startswith(prefix)]

    def used_below(self, name: str) -> int:
        recovered = self._recovered.get(name)
        return 0 if recovered is None else max(recovered.used, default=-1) + 1

    def used_from(self, name: str) -> int:
        recovered = self._recovered.get(name)
        return 0 if recovered is None else min(recovered.used, default=0)

    def forget_unclaimed(self) -> None:
        self._recovered.clear()

    @property
    def index(self) -> SimStorage:
        """What is asked of the index of a virtual host: whether its disk works."""
        return self

    async def flush(self) -> None:
        """Wait for what is being deleted."""
        await asyncio.sleep(FLUSH_S)

    # The disk.

    def work(self, dice: random.Random) -> bool:
        """Sync, page and read, now and then; True if there is something left to do."""
        self.is_doubtful = False
        must_sync, must_page = dice.random() < 0.7, dice.random() < 0.1
        for index in tuple(self.indexes.values()):
            if must_sync:
                index.sync()
            if must_page:
                index.page()
            index.turn()
            if dice.random() < 0.7:
                index.finish_reads()
        return not all(index.is_idle for index in self.indexes.values())

    def refuse(self) -> None:
        for index in tuple(self.indexes.values()):
            self.is_doubtful |= bool(index.unsynced)
            index.refuse()

    def saved(self, dice: random.Random, is_orderly: bool) -> SavedDisk:
        if is_orderly:
            for name, backing in self.backings.items():
                index = self.indexes[name]
                index.note_delivered(index, backing.delivered_runs())
        saved = {n: index.saved(dice, is_orderly) for n, index in self.indexes.items()}
        return {**self._recovered, **saved}

    def has_safe(self, body: bytes) -> bool:
        return any(index.has_safe(body) for index in self.indexes.values())

    def sequence_of(self, body: bytes) -> int | None:
        for index in self.indexes.values():
            sequence = index.bodies.get(body)
            if sequence is not None:
                return sequence
        return None


def saved_has(saved: SavedDisk, body: bytes) -> bool:
    queues: Iterable[SavedQueue] = saved.values()
    return any(each.message.body == body for queue in queues for each in queue.written)
