"""The disk of a simulated node: it syncs in its own time, and a kill leaves what it had synced."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from replica_world import Replica, ReplicaIndex
from warren.queues.boundary import PatientPublisher
from warren.storage.states import JOURNALED, SEGMENTED
from warren.storage.variable_queue import VariableQueue
from warren.wire.codec import Message, QueuedMessage


class Written(NamedTuple):
    """A message as the disk has it."""

    sequence: int
    message: Message
    is_redelivered: bool
    """True if a consumer may have had it, as far as the disk knows."""


SavedDisk = dict[int, list[Written]]
"""By level, in order."""


class SimIndex(ReplicaIndex):
    """`on_work` is told when there is something to do; that a message is gone is synced too."""

    def __init__(self, on_work: Callable[[], None]) -> None:
        super().__init__()
        self._on_work = on_work
        self._gone: dict[int, QueuedMessage] = {}
        """Removed since the last sync: after a kill they may be there again."""

    def publish(self, queued: QueuedMessage) -> None:
        super().publish(queued)
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
            if not isinstance(publisher, PatientPublisher):
                queued.publisher = None
            if publisher is not None:
                publisher.rejected(queued.publisher_sequence)

    def call_soon(self, callback: Callable[[], None]) -> None:
        super().call_soon(callback)
        self._on_work()

    def read(self, *wanted: object) -> None:
        super().read(*wanted)
        self._on_work()

    @property
    def is_idle(self) -> bool:
        return not (self.unsynced or self.soon or self.reads)

    def saved(self, dice: random.Random) -> list[Written]:
        """Return what a kill leaves, with the marks that a stop in good order writes down."""
        kept = {s: q for s, q in self._gone.items() if dice.random() < 0.5}
        kept |= {s: q for s, q in self.live.items() if q.state in (JOURNALED, SEGMENTED)}
        return [
            Written(sequence, kept[sequence].message, self._was_had(sequence))
            for sequence in sorted(kept)
            if kept[sequence].message.properties.persistent
        ]

    def _was_had(self, sequence: int) -> bool:
        return sequence in self._gone or self.was_delivered(sequence)


class SimDisk(Replica):
    def __init__(self, is_lazy: bool, on_work: Callable[[], None]) -> None:
        super().__init__(is_lazy)
        self._on_work = on_work

    def level(self, number: int) -> VariableQueue:
        index = self.indexes[number] = SimIndex(self._on_work)
        queue = self.levels[number] = VariableQueue(lambda: index, True, index)
        queue.set_lazy(self.is_lazy)
        return queue

    def restore(self, saved: SavedDisk) -> dict[int, VariableQueue]:
        """Levels with what an earlier life left."""
        for number, written in saved.items():
            level = self.level(number)
            for sequence, message, is_redelivered in written:
                level.next_sequence = sequence
                level.publish(message, 0, None, 0)
                if is_redelivered:
                    self._mark_last(number)
        self.sync()
        return dict(self.levels)

    def _mark_last(self, number: int) -> None:
        level, index = self.levels[number], self.indexes[number]
        last = (level.back or level.front)[-1]
        last.redelivered = True
        index.delivered.add(last.sequence)

    def saved(self, dice: random.Random) -> SavedDisk:
        for number, index in self.indexes.items():
            index.note_delivered(index, self.levels[number].delivered_runs())
        return {number: index.saved(dice) for number, index in self.indexes.items()}

    def work(self, dice: random.Random) -> bool:
        """Sync, page and read, now and then; whether anything is left to do."""
        if dice.random() < 0.7:
            self.sync()
        if dice.random() < 0.1:
            self.page()
        for index in self.indexes.values():
            index.turn()
            if dice.random() < 0.7:
                index.finish_reads()
        return not all(index.is_idle for index in self.indexes.values())

    def refuse(self) -> None:
        for index in self.indexes.values():
            index.refuse()

    def is_present(self, level: int, sequence: int) -> bool:
        index = self.indexes.get(level)
        return index is not None and sequence in index.live

    def has_safe(self, level: int, sequence: int) -> bool:
        index = self.indexes.get(level)
        queued = None if index is None else index.live.get(sequence)
        return queued is not None and queued.state in (JOURNALED, SEGMENTED)
