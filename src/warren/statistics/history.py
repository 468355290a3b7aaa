"""Samples of the past, coarser the older they are, as RabbitMQ keeps them for its plots.

What was sampled never changes, and is told at moments that do not depend on who asks when: full
multiples of the increment, and the newest sample. Time without samples is a gap: nothing is told
of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

# How far apart samples are and how long they are kept, in seconds.
RETENTION_S: Final = ((5, 605), (60, 3_660), (600, 29_400), (1_800, 86_400))
# Samples come a little earlier or later: half of the shortest interval is near enough.
_EARLY_MS: Final = 2_500


class Sample(NamedTuple):
    timestamp_ms: int
    value: int


class Moment(NamedTuple):
    """All figures of one moment."""

    timestamp_ms: int
    values: Mapping[str, int]


class History:
    """Bounded by RETENTION_S, whatever is put in."""

    def __init__(self) -> None:
        self._levels: list[deque[Moment]] = [
            deque(maxlen=kept_s // interval_s) for interval_s, kept_s in RETENTION_S
        ]

    def add(self, timestamp_ms: int, values: Mapping[str, int]) -> None:
        for (interval_s, _), level in zip(RETENTION_S, self._levels, strict=True):
            if not level or timestamp_ms - level[-1].timestamp_ms >= 1000 * interval_s - _EARLY_MS:
                level.append(Moment(timestamp_ms, values))

    def moments(self, now_ms: int, age_s: int, increment_s: int) -> list[Moment]:
        """Return what there is of the last `age_s` seconds, newest first, an increment apart."""
        interval_s, level = self._level_for(age_s)
        step_ms, oldest_ms = 1000 * max(interval_s, increment_s), now_ms - 1000 * age_s
        wanted_ms = now_ms - now_ms % step_ms
        newest = self._levels[0][-1] if self._levels[0] else None
        found = [] if newest is None or newest.timestamp_ms <= wanted_ms else [newest]
        for moment in reversed(level):
            # The newest sample at or before a wanted moment stands for it, unless it is too old.
            while wanted_ms >= max(moment.timestamp_ms, oldest_ms):
                if wanted_ms <= moment.timestamp_ms + 1000 * interval_s + _EARLY_MS:
                    found.append(Moment(wanted_ms, moment.values))
                wanted_ms -= step_ms
        return found

    def samples(self, name: str, now_ms: int, age_s: int, increment_s: int) -> list[Sample]:
        """Return the samples of one figure; moments at which nobody sampled it are left out."""
        moments = self.moments(now_ms, age_s, increment_s)
        return [Sample(t, values[name]) for t, values in moments if name in values]

    def _level_for(self, age_s: int) -> tuple[int, deque[Moment]]:
        """The finest that goes back so far."""
        for (interval_s, kept_s), level in zip(RETENTION_S, self._levels, strict=True):
            if age_s <= kept_s:
                return interval_s, level
        return RETENTION_S[-1][0], self._levels[-1]
