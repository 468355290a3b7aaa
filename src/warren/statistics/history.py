"""Samples of the past, coarser the older they are, as RabbitMQ keeps them for its plots."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

# How far apart samples are and how long they are kept, in seconds.
RETENTION_S: Final = ((5, 605), (60, 3_660), (600, 29_400), (1_800, 86_400))


class Sample(NamedTuple):
    timestamp_ms: int
    value: int


class History:
    """Bounded by RETENTION_S, whatever is put in."""

    def __init__(self) -> None:
        self._levels: list[deque[tuple[int, Mapping[str, int]]]] = [
            deque(maxlen=kept_s // interval_s) for interval_s, kept_s in RETENTION_S
        ]

    def add(self, timestamp_ms: int, values: Mapping[str, int]) -> None:
        for (interval_s, _), level in zip(RETENTION_S, self._levels, strict=True):
            # Samples come a little earlier or later: half an interval is near enough.
            if not level or timestamp_ms - level[-1][0] >= 1000 * interval_s - 2_500:
                level.append((timestamp_ms, values))

    def samples(self, name: str, now_ms: int, age_s: int, increment_s: int) -> list[Sample]:
        """One for each increment of the last `age_s` seconds, newest first, of those there are."""
        interval_s, level = self._level_for(age_s)
        found = []
        for behind_s in range(0, age_s + 1, max(interval_s, increment_s)):
            wanted_ms = now_ms - 1000 * behind_s
            value = next((v for t, v in reversed(level) if t <= wanted_ms), None)
            if value is None:
                break
            found.append(Sample(wanted_ms, value.get(name, 0)))
        return found

    def _level_for(self, age_s: int) -> tuple[int, deque[tuple[int, Mapping[str, int]]]]:
        """The finest that goes back so far."""
        for (interval_s, kept_s), level in zip(RETENTION_S, self._levels, strict=True):
            if age_s <= kept_s:
                return interval_s, level
        return RETENTION_S[-1][0], self._levels[-1]
