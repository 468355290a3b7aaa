"""Whom to tell of in an interval: those that have changed, no more than a bound, all in their turn.

Twenty thousand queues are nothing a reader wants to hear of every five seconds, and most of them
rest. So a thing is told of when anything about it has changed, and now and then if nothing has.
When there are more of these than may be told, the next round begins where this one had to stop.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

TOLD_PER_ROUND_MAX: Final = 1_000
UNCHANGED_MS: Final = 60_000
"""After so long a thing is told of though nothing has changed."""

Thing = TypeVar("Thing")


class _Told(NamedTuple):
    digest: int
    at_ms: int


class Rounds(Generic[Thing]):
    """Of one kind of things: `begin`, `is_due` for each in the order that gives, `end`."""

    def __init__(self, told_max: int = TOLD_PER_ROUND_MAX) -> None:
        self.left_out = 0
        """In the last round that ended."""
        self._told_max = told_max
        self._before: dict[Thing, _Told] = {}
        self._told: dict[Thing, _Told] = {}
        self._now_ms = 0
        self._told_count = 0
        self._left_out: list[Thing] = []

    def begin(self, things: list[Thing], now_ms: int) -> list[Thing]:
        """Those first that were left out."""
        self._now_ms, self._told_count = now_ms, 0
        waiting, self._left_out = self._left_out, []
        if not waiting:
            return things
        there, first = set(things), set(waiting)
        return [
            *(thing for thing in waiting if thing in there),
            *(thing for thing in things if thing not in first),
        ]

    def is_due(self, thing: Thing, figures: Hashable) -> bool:
        """Whether to tell of it now."""
        told = _Told(hash(figures), self._now_ms)
        before = self._before.get(thing)
        if before is not None:
            self._told[thing] = before
            if before.digest == told.digest and told.at_ms - before.at_ms < UNCHANGED_MS:
                return False
        if self._told_count >= self._told_max:
            self._left_out.append(thing)
            return False
        self._told_count += 1
        self._told[thing] = told
        return True

    def end(self) -> None:
        self.left_out = len(self._left_out)
        self._before, self._told = self._told, {}
