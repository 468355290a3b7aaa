"""So many messages a second and no more, for one task."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# A rate is kept to within so much: of fast ones, as many go at once as are due in this time.
GRAIN_S: Final = 0.01


def at_once(rate: float) -> int:
    """How many messages may go together without the rate being uneven."""
    return max(1, int(rate * GRAIN_S))


class Pace:
    """Evenly: what was not used in a pause is not made up for."""

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        assert rate > 0, "a rate is positive"
        self._interval_s = 1 / rate
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def wait(self, count: int = 1) -> float:
        """Until the next, of so many at once, are due; for how long, in seconds."""
        now = self._clock()
        wait_s = max(0.0, self._due - now)
        if wait_s:
            self._sleep(wait_s)
        self._due = max(self._due, now) + count * self._interval_s
        return wait_s
