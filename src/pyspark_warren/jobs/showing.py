"""Showing a job's progress: one line that changes on a terminal, lines now and then elsewhere.

All of it goes to standard error. Standard output has the result.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Self

from rich.console import Console
from rich.status import Status

from pyspark_warren.jobs.watching import Progress, Watch

LINE_EVERY_S: Final = 5.0
EXIT_INTERRUPTED: Final = 130
STOPPING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class ShownWatch(Watch):
    """Watch that prints what a job tells."""

    __slots__ = ("_console", "_name", "_shown_at", "_started", "_status")

    def __init__(self, name: str, console: Console | None = None) -> None:
        super().__init__()
        self._name = name
        self._console = console or Console(stderr=True, highlight=False)
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status(f"{self._name}: starting Spark")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        self._console.print(f"{self._name}: {text}", markup=False, soft_wrap=True)

    def advance(self, progress: Progress) -> None:
        now = time.monotonic()
        line = self._line(progress, now)
        if self._status is not None:
            self._status.update(f"{self._name}: {line}")
        elif now - self._shown_at >= LINE_EVERY_S:
            self._shown_at = now
            self.say(line)

    def begin(self) -> None:
        """Count rates from here on."""
        self._started = time.monotonic()
        if self._status is not None:
            self._status.update(f"{self._name}: running")

    def _line(self, progress: Progress, now: float) -> str:
        rate = progress.rows / max(now - self._started, 0.001)
        of_all = f" of {progress.total:,}" if progress.total is not None else ""
        detail = f", {progress.detail}" if progress.detail else ""
        return f"{progress.rows:,}{of_all} {progress.unit}, {rate:,.0f}/s{detail}"


@contextmanager
def stopped_by_signals(watch: ShownWatch) -> Iterator[None]:
    """Ask the job to stop at the first SIGINT or SIGTERM, and end it where it is at the second.

    The second signal does not stop Spark: torn out of a batch, Spark would say so in a thousand
    lines. It ends by itself when this process is gone.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        if watch.is_stopping:
            watch.close()
            os._exit(EXIT_INTERRUPTED)
        watch.say(f"{signal.Signals(number).name}: stopping; again to stop at once")
        watch.stop()

    before = {number: signal.signal(number, on_signal) for number in STOPPING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
