"""How busy the event loop is: the part of the time in which it had work.

Its thread sleeps when it has none. While it does not sleep it runs, or waits for a processor that
somebody else has; Linux counts both (`schedstat`). Elsewhere only the time it ran is known.
"""

from __future__ import annotations

import time
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
    """`share` is that of the time between the last two looks, from 0 to 1."""

    def __init__(
        self,
        awake: Callable[[], int] = awake_ns,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._awake = awake
        self._now = now
        self._awake_ns = awake()
        self._now_ns = now()
        self.share = 0.0

    def look(self) -> float:
        awake_ns, now_ns = self._awake(), self._now()
        passed_ns = max(1, now_ns - self._now_ns)
        self.share = min(1.0, max(0.0, (awake_ns - self._awake_ns) / passed_ns))
        self._awake_ns, self._now_ns = awake_ns, now_ns
        return self.share
