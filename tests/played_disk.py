"""A disk that is played for one queue: it writes, reads and segments when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from warren.flow.credit import Credit
from warren.storage.index.states import (
    DEAD,
    GATHERED,
    JOURNALED,
    SEGMENTED,
    STORED,
    TRANSIENT_FILE_MIN,
    VOLATILE,
)
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

TRANSIENT = PropertyBlock(b"\x00\x00")
PERSISTENT = PropertyBlock(b"\x10\x00\x02")
LARGE_BYTES = 4_096


class PlayedDisk:
    """Index, message stores and reader of one queue."""

    def __init__(self) -> None:
        self.on_segmented: Callable[[], None] | None = None
        self.on_stored: Callable[[], None] | None = None
        self.debtor: object = None
        self.credit = Credit(1 << 30)
        self.entries: dict[int, QueuedMessage] = {}
        self.lone: dict[int, QueuedMessage] = {}
        self.bodies: dict[int, Message] = {}
        self.embedded: dict[int, Message] = {}
        self.pending: list[Callable[[], None]] = []
        self.soon: list[Callable[[], None]] = []
        self.bodies_read = 0

    def is_stored(self, message: Message) -> bool:
        return len(message.body) >= LARGE_BYTES

    def publish(self, queued: QueuedMessage) -> None:
        queued.state = GATHERED
        self.entries[queued.sequence] = queued
        bodies = self.bodies if self.is_stored(queued.message) else self.embedded
        bodies[queued.sequence] = queued.message

    def is_transient(self, queued: QueuedMessage) -> bool:
        assert queued.state == SEGMENTED
        return not self.embedded[queued.sequence].properties.persistent

    def write_out(self, queued: QueuedMessage) -> None:
        if queued.message.properties.persistent or not self.is_stored(queued.message):
            self.publish(queued)
            return
        queued.state = GATHERED
        self.lone[queued.sequence] = queued
        self.bodies[queued.sequence] = queued.message

    def enter_stored(self, queued: QueuedMessage) -> None:
        assert queued.state == STORED
        queued.state = GATHERED
        self.entries[queued.sequence] = self.lone.pop(queued.sequence)

    def ack(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            if queued.state in (VOLATILE, DEAD):
                continue
            (self.lone if queued.sequence in self.lone else self.entries).pop(queued.sequence)
            self._forget(queued.sequence)
            queued.state = DEAD

    def ack_range(self, start: int, end: int) -> None:
        for sequence in [s for s in self.entries if start <= s < end]:
            del self.entries[sequence]
            self._forget(sequence)

    def _forget(self, sequence: int) -> None:
        self.bodies.pop(sequence, None)
        self.embedded.pop(sequence, None)

    def write(self) -> None:
        """A batch is safe."""
        for queued in (*self.entries.values(), *self.lone.values()):
            if queued.state == GATHERED:
                queued.state = STORED if queued.sequence in self.lone else JOURNALED
                if queued.sequence in self.bodies:
                    persistent = self.bodies[queued.sequence].properties.persistent
                    queued.store_file = 0 if persistent else TRANSIENT_FILE_MIN
        if self.on_stored is not None:
            self.on_stored()

    def segment(self, below: int) -> None:
        for sequence, queued in self.entries.items():
            if sequence < below and queued.state == JOURNALED:
                queued.state = SEGMENTED
        if self.on_segmented is not None:
            self.on_segmented()

    def read(
        self,
        index: object,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        def finish() -> None:
            found = [s for s in sorted(self.entries) if span[0] <= s < span[1]][:3]
            done([self._entry(self.entries[sequence]) for sequence in found])

        self.pending.append(finish)

    def _entry(self, queued: QueuedMessage) -> QueuedMessage:
        message = self.embedded.get(queued.sequence)
        expires_at_ms = queued.expires_at_ms
        copy = QueuedMessage(message, queued.sequence, expires_at_ms)  # type: ignore[arg-type]
        copy.size, copy.store_file = queued.size, queued.store_file
        copy.state = SEGMENTED
        self.entries[queued.sequence] = copy
        return copy

    def read_bodies(
        self,
        index: object,
        entries: list[QueuedMessage],
        done: Callable[[list[Message | None]], None],
    ) -> None:
        def finish() -> None:
            self.bodies_read += len(entries)
            done([self._body(queued.sequence) for queued in entries])

        self.pending.append(finish)

    def _body(self, sequence: int) -> Message | None:
        if sequence in self.embedded:
            assert self.entries[sequence].state == SEGMENTED, "nothing is read from the journal"
            return self.embedded[sequence]
        return self.bodies.get(sequence)

    def finish_reads(self) -> None:
        pending, self.pending = self.pending, []
        for finish in pending:
            finish()

    def note_delivered(self, index: object, runs: list[tuple[int, int]]) -> None:
        pass

    def mode_changed(self, queue: VariableQueue, is_lazy: bool) -> None:
        pass

    def scatter_now(self) -> None:
        pass

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def take_turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()

    def settle(self, queue: VariableQueue) -> None:
        """Have all written and segmented, and paged out as far as it goes."""
        for _ in range(4):
            self.write()
            self.take_turn()
            self.segment(queue.next_sequence)
            self.take_turn()
