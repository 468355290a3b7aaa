"""The backing of a queue that deduplicates: its messages, and beside them the ids it remembers.

The ids are messages themselves, of a level of their own above all priorities, so that whatever is
done for messages is done for them: they are written in the same journal, read back at a start,
told to mirrors in the same batches and synchronised. A mirror that is promoted has them.

An id's message is, without exception, delivered, to the queue, which never acknowledges it unless
the id is to be forgotten. So the level is empty as far as anybody can see, and of what is counted
here nothing counts ids. Only after a start or a promotion they are all ready again: then they are
what `fetch` gives first, and until the queue has taken them back it gives nothing to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeAlias

from warren.model.deduplication import Remembered
from warren.queues.backing import Level
from warren.queues.boundary import Publisher
from warren.queues.priority_backing import PriorityBacking
from warren.wire.codec import Message, PropertyBlock, QueuedMessage
from warren.wire.properties import Properties, encode_properties

IDS_LEVEL: Final = 256
"""Above PRIORITY_MAX."""

_ROUTE = b"\x01\xff\x00"
"""An exchange whose name is not UTF-8: nothing that a client publishes can have come that way."""
_PERSISTENT = PropertyBlock(encode_properties(Properties(delivery_mode=2)))
_TRANSIENT = PropertyBlock(encode_properties(Properties()))
_HEAD: Final = Struct(">qHQ")
"""When it expires; the level of the message that it came with, and its number there."""

Place: TypeAlias = tuple[int, int]
NOWHERE: Final[Place] = (IDS_LEVEL, 0)
"""Of a message that was gone as soon as it came."""


def record_of(entry: Remembered, place: Place, persistent: bool) -> Message:
    """An id as a message, to be kept as safe as the message that it came with."""
    body = _HEAD.pack(entry.expires_at_ms, *place) + entry.key
    return Message(_ROUTE, _PERSISTENT if persistent else _TRANSIENT, body)


def entry_of(record: Message) -> tuple[Remembered, Place]:
    body = bytes(record.body)
    expires_at_ms, level, sequence = _HEAD.unpack_from(body)
    return Remembered(body[_HEAD.size :], expires_at_ms), (level, sequence)


def is_id(message: Message) -> bool:
    return message.route_key == _ROUTE


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
        """How many the queue has yet to take back."""
        return 0 if self._ids is None else self._ids.length

    def next_place(self, message: Message) -> Place:
        """Where the message goes if it comes now."""
        return self.level_number(message), self.next_sequence_of(message)

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
