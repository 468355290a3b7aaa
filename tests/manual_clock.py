"""Time that passes when a test says so."""

from __future__ import annotations

from collections.abc import Callable


class ManualTimer:
    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock:
    def __init__(self) -> None:
        self._now_ms = 1_000
        self._timers: list[ManualTimer] = []

    def now_ms(self) -> int:
        return self._now_ms

    def wall_seconds(self) -> int:
        return 1_700_000_000 + self._now_ms // 1_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self._now_ms + delay_ms, callback)
        self._timers.append(timer)
        return timer

    def advance(self, by_ms: int) -> None:
        """Let time pass; timers that fall due go off in order, each at its own time."""
        end_ms = self._now_ms + by_ms
        while True:
            self._timers = [timer for timer in self._timers if not timer.is_cancelled]
            due = [timer for timer in self._timers if timer.due_ms <= end_ms]
            if not due:
                break
            first = min(due, key=lambda timer: timer.due_ms)
            self._timers.remove(first)
            self._now_ms = max(self._now_ms, first.due_ms)
            first.callback()
        self._now_ms = end_ms
