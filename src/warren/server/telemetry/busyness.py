"""How busy the event loop is: the part of the time in which it had work.

Its thread sleeps when it has none. While it does not sleep it runs, or waits for a processor that
somebody else has; Linux counts both (`schedstat`). Elsewhere only the time it ran is known.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


def awake_ns() -> int:
    """Of the thread that asks."""
    try:
        ran_ns, waited_ns, _ = _SCHEDSTAT.read_bytes().split()
    except (OSError, ValueError):
        return time.thread_time_ns()
    return int(ran_ns) + int(waited_ns)


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
