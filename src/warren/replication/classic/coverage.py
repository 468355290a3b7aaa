"""How much of a master's queue an unsynchronised mirror lacks.

A mirror holds all messages numbered from its boundary on (see `instructions`). What it lacks are
the messages below, whoever has them: ready ones and those with a client alike. They are counted
when the mirror comes, and each that leaves the master is counted down if it is one of them.
RabbitMQ compares the numbers of messages on both sides instead, and is wrong when a priority queue
delivers a message that the mirror knows before one that it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warren.replication.classic.instructions import Run
from warren.storage.queue.message_tiers import runs_of_sequences


class Coverage:
    def __init__(
        self, boundary: dict[int, int], lacking: int, upto: dict[int, int] | None = None
    ) -> None:
        self.boundary = boundary
        """By level; a level that is not named has had no messages when the mirror came."""
        self.lacking = lacking
        self.upto = upto
        """Of a mirror that comes back and is being told the newest: where it has got to."""
        self.kept_count = 0
        self.catch_up_max = 0
        """Of that one: what it has kept, and how many messages it is sent at most."""

    @property
    def is_complete(self) -> bool:
        return self.lacking == 0 and self.upto is None

    def is_edge(self, level: int, sequence: int) -> bool:
        """Whether it has, or lacks, this message and not the one before."""
        if sequence == self.boundary.get(level):
            return True
        return self.upto is not None and sequence == self.upto.get(level, 0)

    def brought(self, level: int, end: int, is_last: bool) -> bool:
        """A mirror that came back was sent all up to there; whether it lacks nothing any more."""
        assert self.upto is not None, "it is on its way"
        self.upto[level] = end
        if is_last:
            self.upto = None
        return self.is_complete

    def removed(self, level: int, sequence: int) -> bool:
        """A message left the master; whether that was the last one lacking."""
        if sequence >= self.boundary.get(level, 0):
            return False
        self.lacking -= 1
        assert self.lacking >= 0, "no more leaves than was there"
        return self.is_complete

    def purged(self, kept: Iterable[Run]) -> None:
        """Everything left the master but for these."""
        self.lacking = count_below(kept, self.boundary)

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


def runs_by_level(numbers: Iterable[tuple[int, int]]) -> tuple[Run, ...]:
    """Levels and numbers, in few words: a window's ids may be a million, and follow each other."""
    by_level: dict[int, list[int]] = {}
    for level, number in numbers:
        by_level.setdefault(level, []).append(number)
    runs: list[Run] = []
    for level, found in by_level.items():
        runs += [(level, first, count) for first, count in runs_of_sequences(sorted(found))]
    return tuple(runs)


def count_below(runs: Iterable[Run], boundary: Mapping[int, int]) -> int:
    """How many of these messages a mirror with such a boundary does not have."""
    return sum(min(max(boundary.get(level, 0) - first, 0), count) for level, first, count in runs)
