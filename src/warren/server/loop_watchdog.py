"""Watchdog of the event loop: turns that take so long that other clients notice, and what ran.

A timer of the loop is due every BEAT_S; how late it comes is how long a turn has kept everybody
waiting (at least: the turn may have begun up to BEAT_S before). A thread looks as often whether the
timer is late already, and if so, what the loop's thread is executing: the innermost and the
outermost function of Warren. Compiled functions leave no trace there, so their caller is named.

That is 40 wake-ups a second, which an idle node need not have. A loop that has hardly used its
processor for a few beats lets the watchdog doze: then both look once a second. The first read of a
client's socket ends that within the same turn (`stir`), so a turn that a client's request makes
long is seen as before. What may be missed is a turn of the broker's own that takes less than
DOZE_S while no client sends anything.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from warren.model.logs import EventLog

LONG_TURN_S: Final = 0.1
BEAT_S: Final = 0.05
# So many beats in which the loop used less than IDLE_CPU_S make the watchdog doze.
DOZE_AFTER_BEATS: Final = 4
IDLE_CPU_S: Final = 0.001
DOZE_S: Final = 1.0
# Between two lines in the log; turns without one are counted in the next.
LOG_INTERVAL_S: Final = 10.0

_log: Final = EventLog("loop")


def _never(stir: Callable[[], None]) -> None:
    """Nothing will stir the watchdog."""


class LoopWatchdog:
    """Watches within `with`; `long_turns` and `long_turns_s` count from then on.

    `at_next_read` is asked to call back when a client's socket is read next.
    """

    def __init__(self, at_next_read: Callable[[Callable[[], None]], None] = _never) -> None:
        self.long_turns = 0
        self.long_turns_s = 0.0
        self.beats = 0
        self._at_next_read = at_next_read
        self._idle_beats = 0
        self._cpu_s = 0.0
        self._unlogged = 0
        self._next_log_s = 0.0
        self._due_s = 0.0
        self._seen = ""
        self._timer: asyncio.TimerHandle | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LoopWatchdog:
        """Watch the running loop, which is the one of this thread."""
        loop, watched = asyncio.get_running_loop(), threading.get_ident()
        self._cpu_s = time.thread_time()
        self._schedule(loop)
        self._thread = threading.Thread(
            target=self._look, args=(watched,), name="loop-watchdog", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    @property
    def is_dozing(self) -> bool:
        return self._idle_beats >= DOZE_AFTER_BEATS

    def stir(self) -> None:
        """End the doze: the loop has something to do. Called by the loop's thread."""
        if self.is_dozing and self._timer is not None:
            self._idle_beats = 0
            self._timer.cancel()
            self._schedule(asyncio.get_running_loop())
            self._wake.set()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        period_s = DOZE_S if self.is_dozing else BEAT_S
        self._due_s = time.monotonic() + period_s
        self._timer = loop.call_later(period_s, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self.beats += 1
        now_s = time.monotonic()
        took_s = now_s - self._due_s
        if took_s > LONG_TURN_S:
            self._count(now_s, took_s)
        self._seen = ""
        self._note_idleness()
        self._schedule(loop)

    def _note_idleness(self) -> None:
        cpu_s = time.thread_time()
        is_idle = cpu_s - self._cpu_s < IDLE_CPU_S
        self._cpu_s = cpu_s
        self._idle_beats = self._idle_beats + 1 if is_idle else 0
        if self._idle_beats == DOZE_AFTER_BEATS:
            self._at_next_read(self.stir)

    def _count(self, now_s: float, took_s: float) -> None:
        self.long_turns += 1
        self.long_turns_s += took_s
        if now_s < self._next_log_s:
            self._unlogged += 1
            return
        self._next_log_s = now_s + LOG_INTERVAL_S
        _log.warning(
            "event loop turn took long",
            took_ms=round(took_s * 1000),
            ran=self._seen or "unknown",
            not_logged=self._unlogged,
        )
        self._unlogged = 0

    def _look(self, watched: int) -> None:
        while not self._stop.is_set():
            self._wake.wait(DOZE_S if self.is_dozing else BEAT_S)
            if self._wake.is_set():  # the loop is at the beginning of a turn
                self._wake.clear()
            elif not self._seen and time.monotonic() - self._due_s > LONG_TURN_S / 2:
                self._seen = _running(sys._current_frames().get(watched))


def _running(frame: FrameType | None) -> str:
    """Name the innermost and the outermost function of Warren that are being executed."""
    names = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("warren."):
            names.append(f"{module.removeprefix('warren.')}.{frame.f_code.co_name}")
        frame = frame.f_back
    # The last is the one that runs the loop.
    called = names[:-1] or names
    return "<".join(dict.fromkeys((called[0], called[-1]))) if called else ""
