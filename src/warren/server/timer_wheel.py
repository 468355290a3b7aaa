"""Coarse timers for things there are many of: heartbeats, handshakes and closings of connections.

A timer of the loop per connection keeps a heap of ten thousand entries busy for events that may
come a tenth of a second late without anybody noticing. Here timers that end in the same slot of
time share one list, a cancelled timer only forgets its callback, and the loop knows of one timer:
that of the earliest slot. With nothing to wait for, the node sleeps.

Ten thousand connections opened at once fall due at once, too. So one turn of the loop makes a
bounded number of visits, and the rest waits for the next turn behind whatever else came in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from warren.model.clock import Clock, TimerHandle

SLOT_MS: Final = 100
VISITS_PER_TURN_MAX: Final = 500


class WheelTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class TimerWheel:
    """Never early, late by up to a slot; otherwise like `Clock.call_later`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, list[WheelTimer]] = {}
        self._order: list[int] = []
        self._due: deque[WheelTimer] = deque()
        self._alarm: TimerHandle | None = None
        self._alarm_slot = 0

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> WheelTimer:
        timer = WheelTimer(callback)
        slot = (self._clock.now_ms() + delay_ms) // SLOT_MS + 1
        timers = self._slots.get(slot)
        if timers is None:
            self._slots[slot] = [timer]
            heappush(self._order, slot)
            self._arm()
        else:
            timers.append(timer)
        return timer

    def close(self) -> None:
        """Forget everything that was to come."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        self._slots.clear()
        self._order.clear()
        self._due.clear()

    def _arm(self) -> None:
        """See to it that the alarm is set for the first thing to do."""
        if self._due:
            slot, delay_ms = 0, 0
        elif self._order:
            slot = self._order[0]
            delay_ms = max(0, slot * SLOT_MS - self._clock.now_ms())
        else:
            return
        if self._alarm is not None:
            if self._alarm_slot <= slot:
                return
            self._alarm.cancel()
        self._alarm_slot = slot
        self._alarm = self._clock.call_later(delay_ms, self._turn)

    def _turn(self) -> None:
        self._alarm = None
        now_slot = self._clock.now_ms() // SLOT_MS
        while self._order and self._order[0] <= now_slot:
            self._due.extend(self._slots.pop(heappop(self._order)))
        try:
            for _ in range(min(len(self._due), VISITS_PER_TURN_MAX)):
                callback = self._due.popleft().callback
                if callback is not None:
                    callback()
        finally:
            # Also after a callback that raised, which is for the loop to report: the others go on.
            self._arm()
