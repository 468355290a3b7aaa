"""How much of a master's queue an unsynchronised mirror lacks.

A mirror holds all messages numbered from its boundary on (see `instructions`). What it lacks are
the messages below, whoever has them: ready ones and those with a client alike. They are counted
when the mirror comes, and each that leaves the master is counted down if it is one of them.
RabbitMQ compares the numbers of messages on both sides instead, and is wrong when a priority queue
delivers a message that the mirror knows before one that it does not.
"""

from __future__ import annotations

from collections.abc import Iterable


class Coverage:
    def __init__(self, boundary: dict[int, int], lacking: int) -> None:
        self.boundary = boundary
        """By level; a level that is not named has had no messages when the mirror came."""
        self.lacking = lacking

    @property
    def is_complete(self) -> bool:
        return self.lacking == 0

    def removed(self, level: int, sequence: int) -> bool:
        """A message left the master; whether that was the last one lacking."""
        if sequence >= self.boundary.get(level, 0):
            return False
        self.lacking -= 1
        assert self.lacking >= 0, "no more leaves than was there"
        return self.lacking == 0

    def purged(self, kept: Iterable[tuple[int, int]]) -> None:
        """Everything left the master but for these: levels and numbers."""
        self.lacking = sum(number < self.boundary.get(level, 0) for level, number in kept)

    def sent(self, level: int, below: int, boundary: int, count: int) -> bool:
        """Mirrors whose boundary is `below` were sent all from `boundary` on, so many messages.

        Whether this one lacks nothing any more because of it.
        """
        if self.is_complete or self.boundary.get(level, 0) != below:
            return False
        self.boundary[level] = boundary
        self.lacking -= count
        assert self.lacking >= 0, "no more is sent than was there"
        if not any(self.boundary.values()):
            self.lacking = 0  # what else was counted the disk has lost
        return self.is_complete
