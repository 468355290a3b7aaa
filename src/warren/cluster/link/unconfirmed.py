"""Unconfirmed publishes: those on their way to a queue of another node."""

from __future__ import annotations

from warren.queues.boundary import Publisher
from warren.wire.codec import Message


class Unconfirmed:
    """A publish on its way: our number of it, and the publisher with its own."""

    def __init__(
        self, number: int, publisher: Publisher | None, sequence: int, message: Message
    ) -> None:
        self.number = number
        self.publisher = publisher
        self.sequence = sequence
        self.message = message
