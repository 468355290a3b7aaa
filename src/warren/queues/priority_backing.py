"""A priority queue: one backing per priority, the highest that has something is served first.

Like RabbitMQ's, everything that looks at the head (expiry, drop-head) looks at the head of the
highest non-empty priority only. Levels are made when first used: x-max-priority may be 255.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from warren.queues.backing import BackingQueue, Level
from warren.queues.backing_figures import BackingFigures
from warren.queues.boundary import Publisher
from warren.wire.codec import Message, QueuedMessage


class PriorityBacking(BackingQueue):
    def __init__(self, max_priority: int, make_level: Callable[[int], Level]) -> None:
        self.length = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self._max_priority = max_priority
        self._make_level = make_level
        self._levels: dict[int, Level] = {}
        self._is_lazy = False

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        self.length += 1
        self.ready_bytes += len(message.body)
        return self._level_of(message).publish(message, expires_at_ms, publisher, sequence)

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        self.unacked_count += 1
        return self._level_of(queued.message).publish_delivered(queued, publisher, sequence)

    def mark_redelivered(self, message: Message) -> None:
        self._level_of(message).mark_redelivered(message)

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        level = self._first()
        queued = level.fetch(ack_required) if level is not None else None
        if queued is None:
            self.recount()
        else:
            self.length -= 1
            self.ready_bytes -= len(queued.message.body)
            self.unacked_count += ack_required
        return queued

    def recount(self) -> None:
        """What should have come from the disk may be lost."""
        self.length = sum([level.length for level in self._levels.values()])
        self.ready_bytes = sum([level.ready_bytes for level in self._levels.values()])

    def head(self) -> QueuedMessage | None:
        level = self._first()
        return level.head() if level is not None else None

    def ack(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            self._level_of(queued.message).ack([queued])
        self.unacked_count -= len(run)

    def requeue(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            self._level_of(queued.message).requeue([queued])
            # Its body may have left memory; without a disk, nobody notes its size.
            self.ready_bytes += queued.size or len(queued.message.body)
        self.length += len(run)
        self.unacked_count -= len(run)

    def drop_unacked(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            self._level_of(queued.message).drop_unacked([queued])

    def load_unacked(
        self, run: list[QueuedMessage], done: Callable[[list[QueuedMessage]], None]
    ) -> None:
        """Level by level, and one after another."""
        by_level: dict[int, list[QueuedMessage]] = {}
        for queued in run:
            by_level.setdefault(self.level_number(queued.message), []).append(queued)
        found: list[QueuedMessage] = []

        def go_on(loaded: list[QueuedMessage]) -> None:
            found.extend(loaded)
            if by_level:
                number, mine = by_level.popitem()
                self.level(number).load_unacked(mine, go_on)
            else:
                done(found)

        go_on([])

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        """Highest priority first, which is the order they would be delivered in."""
        shown: list[QueuedMessage] = []
        for level in list(self._levels.values()):
            if limit <= len(shown) or bytes_max <= 0:
                break
            if offset >= (length := level.length):
                offset -= length
                continue
            wanted = min(limit - len(shown), length - offset)
            found = await level.browse(offset, wanted, bytes_max)
            shown += found
            if len(found) < wanted:
                break
            bytes_max -= sum([len(queued.message.body) for queued in found])
            offset = 0
        return shown

    def purge(self) -> int:
        self.recount()
        count = sum([level.purge() for level in self._levels.values()])
        assert count == self.length, "the levels hold what they counted"
        self.length = 0
        self.ready_bytes = 0
        return count

    def is_discarding(self) -> bool:
        return any(level.is_discarding() for level in self._levels.values())

    def figures(self) -> BackingFigures:
        return sum((level.figures() for level in self._levels.values()), BackingFigures())

    def status(self, now_ms: int) -> dict[str, Any]:
        """Numbers are sums, and infinity if one of them is; what has none is the same for all."""
        lengths = {str(priority): 0 for priority in range(self._max_priority + 1)}
        summed: dict[str, Any] = {}
        for priority, level in self._levels.items():
            lengths[str(priority)] = level.length
            for name, value in level.status(now_ms).items():
                before = summed.get(name)
                if before is None or isinstance(value, str | list):
                    summed[name] = value
                elif not isinstance(before, str):
                    summed[name] = before + value
        summed.update(
            delta=["delta", *["todo"] * 4],
            len=self.length,
            mode="lazy" if self._is_lazy else "default",
            priority_lengths=lengths,
            version=1,
        )
        return summed

    def peek(self) -> QueuedMessage | None:
        level = self._first()
        return level.peek() if level is not None else None

    def disk_counts(self) -> tuple[int, int]:
        counts = [level.disk_counts() for level in self._levels.values()]
        return sum(reads for reads, _ in counts), sum(writes for _, writes in counts)

    def is_in_flow(self, now_ms: int, memory_ms: int) -> bool:
        return any(level.is_in_flow(now_ms, memory_ms) for level in self._levels.values())

    def set_lazy(self, lazy: bool) -> None:
        self._is_lazy = lazy
        for level in self._levels.values():
            level.set_lazy(lazy)

    def delete(self) -> None:
        for level in self._levels.values():
            level.delete()
        self.length = 0
        self.ready_bytes = 0

    def add_level(self, priority: int, level: Level) -> None:
        """One that has messages from before the start."""
        self._levels[priority] = level
        self._levels = dict(sorted(self._levels.items(), reverse=True))
        self.length += level.length
        self.ready_bytes += level.ready_bytes

    def level_number(self, message: Message) -> int:
        return min(message.properties.priority, self._max_priority)

    def next_sequence_of(self, message: Message) -> int:
        return self._level_of(message).next_sequence

    def items(self) -> Iterable[tuple[int, Level]]:
        """The levels that there are."""
        return self._levels.items()

    def _first(self) -> Level | None:
        """The level that is served."""
        for level in self._levels.values():
            if level.length:
                return level
        return None

    def _level_of(self, message: Message) -> Level:
        return self.level(self.level_number(message))

    def level(self, priority: int) -> Level:
        level = self._levels.get(priority)
        if level is None:
            self._levels[priority] = level = self._make_level(priority)
            level.set_lazy(self._is_lazy)
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        return level
