"""The backing of a queue that deduplicates: its messages, and beside them the ids it remembers.

The ids are messages themselves, some to each (`id_records`), of a level of their own above all
priorities, so that whatever is done for messages is done for them: they are written in the same
journal, read back at a start, told to mirrors in the same batches and synchronised. A mirror that
is promoted has them.

Such a message is, without exception, delivered, to the queue, which never acknowledges it unless
its ids are to be forgotten. So the level is empty as far as anybody can see, and of what is counted
here nothing counts ids. Only after a start or a promotion they are all ready again: then they are
what `fetch` gives first, and until the queue has taken them back it gives nothing to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from warren.queues.backing import Level
from warren.queues.boundary import Publisher
from warren.queues.id_records import Place, is_id
from warren.queues.priority_backing import PriorityBacking
from warren.wire.codec import Message, QueuedMessage

IDS_LEVEL: Final = 256
"""Above PRIORITY_MAX."""

NOWHERE: Final[Place] = (IDS_LEVEL, 0)
"""Of a message that was gone as soon as it came."""


class IdKeepingBacking(PriorityBacking):
    """`on_left` hears of each message that is gone for good, but not of a purge."""

    def __init__(self, top_level: int, make_level: Callable[[int], Level]) -> None:
        PriorityBacking.__init__(self, top_level, make_level)
        self.on_left: Callable[[Message], None] | None = None
        self.taken = 0
        """How many messages were ever kept here, if only for a moment."""
        self._ids: Level | None = None

    @property
    def ids_ready(self) -> int:
        """How many records of ids the queue has yet to take back."""
        return 0 if self._ids is None else self._ids.length

    def ids_embedded_below(self) -> int:
        """Records of ids that are shorter are safe in their turn, after what was published."""
        return self.level(IDS_LEVEL).embeds_below()

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        self.taken += 1
        return PriorityBacking.publish(self, message, expires_at_ms, publisher, sequence)

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        if not is_id(queued.message):
            self.taken += 1
            return PriorityBacking.publish_delivered(self, queued, publisher, sequence)
        return self.level(IDS_LEVEL).publish_delivered(queued, publisher, sequence)

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        if self._ids is not None and self._ids.length:
            return self._ids.fetch(True) if ack_required else None
        queued = PriorityBacking.fetch(self, ack_required)
        if queued is not None and not ack_required and self.on_left is not None:
            self.on_left(queued.message)
        return queued

    def head(self) -> QueuedMessage | None:
        return None if self.ids_ready else PriorityBacking.head(self)

    def ack(self, run: list[QueuedMessage]) -> None:
        messages, ids = _parted(run)
        if ids:
            self.level(IDS_LEVEL).ack(ids)
        PriorityBacking.ack(self, messages)
        if self.on_left is not None:
            for queued in messages:
                self.on_left(queued.message)

    def requeue(self, run: list[QueuedMessage]) -> None:
        messages, ids = _parted(run)
        if ids:
            self.level(IDS_LEVEL).requeue(ids)
        PriorityBacking.requeue(self, messages)

    def delete(self) -> None:
        PriorityBacking.delete(self)
        if self._ids is not None:
            self._ids.delete()

    def add_level(self, priority: int, level: Level) -> None:
        if priority == IDS_LEVEL:
            self._ids = level
        else:
            PriorityBacking.add_level(self, priority, level)

    def level_number(self, message: Message) -> int:
        return IDS_LEVEL if is_id(message) else PriorityBacking.level_number(self, message)

    def level(self, priority: int) -> Level:
        if priority != IDS_LEVEL:
            return PriorityBacking.level(self, priority)
        if self._ids is None:
            self._ids = self._make_level(IDS_LEVEL)
        return self._ids

    def items(self) -> Iterable[tuple[int, Level]]:
        ids = [] if self._ids is None else [(IDS_LEVEL, self._ids)]
        return [*PriorityBacking.items(self), *ids]


def _parted(run: list[QueuedMessage]) -> tuple[list[QueuedMessage], list[QueuedMessage]]:
    """Messages, and ids."""
    messages: list[QueuedMessage] = []
    ids: list[QueuedMessage] = []
    for queued in run:
        (ids if is_id(queued.message) else messages).append(queued)
    return messages, ids
