"""The arrival of a message that its own queue may drop at once.

A length limit of zero, or a body longer than the limit in bytes, or a priority above those of the
messages that fill the queue: then the head that has to make room is the message that has just come.
Nobody needs it any more, so its backing confirms it, while `publish` is still running and the
publisher does not wait yet: it would miss the confirm, and wait for ever. So the confirm is caught
here, and becomes the answer of `publish`.
"""

from __future__ import annotations

from warren.queues.boundary import PENDING, TAKEN, Publisher


class Arrival:
    """The `Publisher` of one message, in place of the one that published it."""

    def __init__(self, publisher: Publisher) -> None:
        self.origin = publisher.origin
        self._publisher = publisher
        self._is_under_way = True
        self._is_confirmed = False

    def answer(self, outcome: int) -> int:
        """Return what `publish` says; from now on the publisher is told itself."""
        self._is_under_way = False
        return TAKEN if outcome == PENDING and self._is_confirmed else outcome

    def confirmed(self, sequence: int) -> None:
        if self._is_under_way:
            self._is_confirmed = True
        else:
            self._publisher.confirmed(sequence)

    def rejected(self, sequence: int) -> None:
        self._publisher.rejected(sequence)
