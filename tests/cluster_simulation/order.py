"""The order of deliveries, as masters write them, and what must hold of it whoever leads.

A message without the mark `redelivered` was never delivered before, comes after all that its
publisher published before what was delivered, and in an epoch after all numbers that were delivered
before. In one turn a master writes to several streams (clients, other nodes), one after the other;
so what it writes in a turn is in order within each stream, and compared with what was written in
turns before.
"""

from __future__ import annotations

from typing import NamedTuple

from gm_invariants import Violation


class Seen(NamedTuple):
    """A delivery: `publisher` is the connection it was published on, `sequence` its number."""

    body: int
    is_redelivered: bool
    publisher: int
    level: int
    sequence: int | None


class _Marks:
    """How far deliveries have come."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        """By level: the last number that was delivered for the first time."""
        self.bodies: dict[tuple[int, int], int] = {}
        """By publisher and level: the newest body that was delivered."""

    def require(self, seen: Seen) -> None:
        if seen.is_redelivered:
            return
        number, publisher = self.numbers.get(seen.level, -1), (seen.publisher, seen.level)
        if seen.sequence is not None and seen.sequence <= number:
            raise Violation(f"FIFO: {seen} comes after number {number}")
        newest = self.bodies.get(publisher, 0)
        if seen.body < newest:
            raise Violation(f"order: {seen} comes as new after {newest}")

    def note(self, seen: Seen) -> None:
        publisher = (seen.publisher, seen.level)
        self.bodies[publisher] = max(seen.body, self.bodies.get(publisher, 0))
        if seen.sequence is not None and not seen.is_redelivered:
            self.numbers[seen.level] = max(seen.sequence, self.numbers.get(seen.level, -1))


class Order:
    def __init__(self) -> None:
        self._all = _Marks()
        self._streams: dict[object, _Marks] = {}
        self._had: set[int] = set()
        """Bodies that were delivered, by any master."""
        self._turn: object = None
        self._written: list[Seen] = []
        """What was written in this turn."""

    def begin_epoch(self) -> None:
        """Another master numbers from now on."""
        self._end_turn()
        self._all.numbers.clear()
        self._streams.clear()

    def delivers(self, turn: object, stream: object, seen: Seen) -> None:
        if turn != self._turn:
            self._end_turn()
            self._turn = turn
        marks = self._streams.get(stream)
        if marks is None:
            marks = self._streams[stream] = _Marks()
        for each in (self._all, marks):
            each.require(seen)
        if seen.body in self._had and not seen.is_redelivered:
            raise Violation(f"order: {seen} is delivered again, without the mark")
        marks.note(seen)
        self._written.append(seen)

    def _end_turn(self) -> None:
        for seen in self._written:
            self._all.note(seen)
            self._had.add(seen.body)
        self._written.clear()
