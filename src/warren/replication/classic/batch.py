"""One batch of instructions on its way to every copy, and the publishers who wait for that.

A confirm means that every member of the committed in-sync set has the message, on disk if it is
persistent. A batch is what a turn of the loop brought; it goes round as one, and comes to each disk
nearly as one. So it is enough to count: so many of its messages are not safe here yet, and it is
everywhere or it is not. When both are done, all its publishers are told.

To the backing here it is the `Publisher` of its messages, each under its place in the batch. It is
a patient one: what the disk here refuses, a mirror may have, and answer for once it leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.queues.boundary import Publisher, RetryingPublisher
from warren.wire.codec import Message


class Unconfirmed:
    """`number` is that of the publish as this node counts its own; 0 if another node counts it."""

    def __init__(self, publisher: Publisher, sequence: int, number: int, message: Message) -> None:
        self.publisher = publisher
        self.sequence = sequence
        self.number = number
        self.message = message


class _Nobody:
    """The publisher of messages that nobody wants to hear of."""

    origin = None

    def confirmed(self, sequence: int) -> None: ...

    def rejected(self, sequence: int) -> None: ...


NOBODY: Final = _Nobody()


class Batch(RetryingPublisher):
    """`on_complete` is called once, when publishers may be told.

    `on_refused` is called for each message that the disk here would not take, and returns True if
    the publisher is to wait: another copy is about to lead, and answers.
    """

    def __init__(
        self, on_complete: Callable[[Batch], None], on_refused: Callable[[], bool]
    ) -> None:
        self.number = -1
        """Of the broadcast; -1 while the turn lasts."""
        self.waiting: list[Unconfirmed | None] = []
        self.size = 0
        """What its messages are charged with."""
        self.unsafe_here = 0
        self.is_everywhere = False
        self._on_complete = on_complete
        self._on_refused = on_refused

    def add(self, unconfirmed: Unconfirmed) -> int:
        """Its place, under which the backing is to confirm it."""
        self.waiting.append(unconfirmed)
        self.unsafe_here += 1
        return len(self.waiting) - 1

    def confirmed(self, place: int) -> None:
        """The backing here has it."""
        self.unsafe_here -= 1
        if self.unsafe_here == 0 and self.is_everywhere:
            self._on_complete(self)

    def rejected(self, place: int) -> None:
        """The disk here would not take it, and is asked again: then comes this, or `confirmed`."""
        unconfirmed = self.waiting[place] if place < len(self.waiting) else None
        if unconfirmed is not None and not self._on_refused():
            self.waiting[place] = None
            unconfirmed.publisher.rejected(unconfirmed.sequence)

    def held_everywhere(self) -> None:
        """Every other member of the in-sync set has it."""
        if not self.is_everywhere:
            self.is_everywhere = True
            if self.unsafe_here == 0:
                self._on_complete(self)

    def answer(self) -> None:
        for unconfirmed in self.waiting:
            if unconfirmed is not None:
                unconfirmed.publisher.confirmed(unconfirmed.sequence)
        self.waiting.clear()
