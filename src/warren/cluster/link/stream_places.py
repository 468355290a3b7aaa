"""How far consumers of a stream have come, for when it has another master: they go on there."""

from __future__ import annotations

from warren.queues.consumers import Consumer
from warren.streams.consumer_offsets import going_on_at
from warren.streams.offset_header import offset_of
from warren.wire.codec import Message


class StreamPlaces:
    """Nothing is worked out before it is asked for: of each consumer the last record is kept."""

    def __init__(self) -> None:
        self._begun: dict[Consumer, int] = {}
        self._latest: dict[Consumer, Message] = {}

    def begun(self, consumer: Consumer, offset: int) -> None:
        """It is served from here on."""
        self._begun[consumer] = offset

    def passed_on(self, consumer: Consumer, message: Message) -> None:
        self._latest[consumer] = message

    def go_on(self, consumer: Consumer) -> None:
        """It is to be served anew: have it ask for the record after the last it has had."""
        latest = self._latest.get(consumer)
        if latest is not None:
            going_on_at(consumer, offset_of(latest.properties.raw) + 1)
        elif consumer in self._begun:
            going_on_at(consumer, self._begun[consumer])

    def forget(self, consumer: Consumer) -> None:
        self._begun.pop(consumer, None)
        self._latest.pop(consumer, None)
