"""Time as an argument: whoever needs it is given a Clock, so that tests and simulations own it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds that never go backwards while the node lives.

        They begin near the wall clock's, so that a message's expiry, which is stored, still means
        the same moment after a restart; a clock that is set meanwhile changes nothing.
        """
        ...

    def wall_seconds(self) -> int:
        """Seconds since the epoch, for what people and x-death headers read."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle: ...
