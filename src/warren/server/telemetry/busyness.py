"""Busyness of the event loop: the part of the time in which it had work, and in which it ran.

The loop's thread sleeps when it has no work. While it does not sleep it runs, or waits for a
processor that another program has; Linux counts both (`schedstat`). Elsewhere only the time that it
ran is known. A loop that has work all the time and runs for a tenth of it is not slow: the machine
is starved.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")
_STAT: Final = Path("/proc/stat")
_STEAL: Final = 7
"""Which of the times in /proc/stat is the one that the hypervisor gave to other machines."""
_KINDS: Final = 8
"""The times that follow are parts of the first ones."""


class LoopTimes(NamedTuple):
    """Nanoseconds of a thread since it started."""

    ran: int
    waited: int
    """With work, for a processor."""


def loop_times() -> LoopTimes:
    """Return the times of the thread that asks."""
    try:
        ran_ns, waited_ns, _ = _SCHEDSTAT.read_bytes().split()
    except (OSError, ValueError):
        return LoopTimes(time.thread_time_ns(), 0)
    return LoopTimes(int(ran_ns), int(waited_ns))


def awake_ns() -> int:
    """Return how long the thread that asks was awake."""
    return sum(loop_times())


class Busyness:
    """Share of the time in which the loop was awake, from 0 to 1, since `looks` looks ago."""

    def __init__(
        self,
        awake: Callable[[], int] = awake_ns,
        now: Callable[[], int] = time.monotonic_ns,
        looks: int = 1,
    ) -> None:
        self._awake = awake
        self._now = now
        self._seen = deque([(awake(), now())], maxlen=looks)

    def look(self) -> float:
        awake_ns, now_ns = self._awake(), self._now()
        before_awake_ns, before_ns = self._seen[0]
        self._seen.append((awake_ns, now_ns))
        passed_ns = max(1, now_ns - before_ns)
        return min(1.0, max(0.0, (awake_ns - before_awake_ns) / passed_ns))


class LoopUse:
    """Shares of the time in which the loop ran, and waited for a processor, since the last look."""

    def __init__(
        self,
        times: Callable[[], LoopTimes] = loop_times,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._times = times
        self._now = now
        self._seen = times(), now()

    def look(self) -> tuple[float, float]:
        (before, before_ns), seen = self._seen, (self._times(), self._now())
        self._seen = seen
        times, now_ns = seen
        passed_ns = max(1, now_ns - before_ns)
        ran = (times.ran - before.ran) / passed_ns
        waited = (times.waited - before.waited) / passed_ns
        return min(1.0, max(0.0, ran)), min(1.0, max(0.0, waited))


class Steal:
    """Share of all processors' time that the hypervisor gave to other machines since the last look.

    0 where the system does not say.
    """

    def __init__(self, path: Path = _STAT) -> None:
        self._path = path
        self._seen = self._times()

    def look(self) -> float:
        before, self._seen = self._seen, self._times()
        passed = sum(self._seen) - sum(before)
        if passed <= 0 or len(before) <= _STEAL:
            return 0.0
        return max(0.0, (self._seen[_STEAL] - before[_STEAL]) / passed)

    def _times(self) -> list[int]:
        """Return the times of all processors together, or nothing."""
        try:
            with self._path.open() as stat:
                name, *times = stat.readline().split()
            return [int(text) for text in times[:_KINDS]] if name == "cpu" else []
        except (OSError, ValueError):
            return []


def load() -> float:
    """Return how many threads ran or waited for a processor, over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return 0.0


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
