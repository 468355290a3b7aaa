"""Time from the running event loop, as the rest of the broker is given it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from warren.model.clock import TimerHandle


class LoopClock:
    """The loop reads its clock once per turn, so `now_ms` is as cheap as an attribute."""

    __slots__ = ("_loop", "_offset_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._offset_ms = time.time() * 1000 - self._loop.time() * 1000

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000 + self._offset_ms)

    def wall_seconds(self) -> int:
        return int(time.time())

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)
