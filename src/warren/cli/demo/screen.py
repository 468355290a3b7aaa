"""What one sees: a line for each thing that happens, and below them one that tells how it goes.

Where there is no terminal that line is printed every few seconds instead.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from warren.cli.demo.load import Publishing

REFRESHES_PER_SECOND: Final = 8
PRINTED_EVERY_S: Final = 2.0
RATE_OVER_S: Final = 1.0


class Screen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._line = Live(console=console, auto_refresh=False, transient=True)
        self._printed_at = self._began
        self._marks: list[tuple[float, int]] = []

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._line.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.stop()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def tell(self, text: str, style: str = "") -> None:
        when = Text(f"{self.elapsed_s:6.1f} s  ", style="dim")
        self._console.print(when + Text(text, style=style), soft_wrap=True)

    def progress(self, publishing: Publishing, copies: str) -> None:
        now = time.monotonic()
        line = Text(
            f"          {publishing.published:,} published ({self._rate(now, publishing):,.0f}/s), "
            f"{publishing.confirmed:,} confirmed; longest wait for a confirm "
            f"{publishing.gap_ms:,.0f} ms; {copies}"
        )
        if self._console.is_terminal:
            self._line.update(line, refresh=True)
        elif now - self._printed_at >= PRINTED_EVERY_S:
            self._printed_at = now
            self._console.print(line, soft_wrap=True)

    def clear_progress(self) -> None:
        if self._console.is_terminal:
            self._line.update(Text(""), refresh=True)

    def _rate(self, now: float, publishing: Publishing) -> float:
        """Over the last second or so."""
        self._marks.append((now, publishing.confirmed))
        while len(self._marks) > 2 and self._marks[1][0] < now - RATE_OVER_S:
            del self._marks[0]
        then, confirmed = self._marks[0]
        return (publishing.confirmed - confirmed) / (now - then) if now > then else 0.0
