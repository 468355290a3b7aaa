"""Spans of time, in which windows are gathered so that a plot has no more of them than pixels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.diagnosis import Bottleneck

if TYPE_CHECKING:
    from pyspark_warren.jobs.windows import Window

SPANS_MAX: Final = 300
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Spans:
    """Windows of a node, or of a queue, gathered in equal spans of time."""

    first_ms: int
    span_ms: int
    labels: list[str]
    gathered: list[list[Window]]

    def same_times(self, windows: Sequence[Window]) -> Spans:
        """Return the same spans with other windows; those that are outside are left out."""
        gathered: list[list[Window]] = [[] for _ in self.labels]
        for window in windows:
            at = (window.start_ms - self.first_ms) // self.span_ms
            if 0 <= at < len(gathered):
                gathered[at].append(window)
        return Spans(self.first_ms, self.span_ms, self.labels, gathered)

    def means(self, figure: str) -> list[float | None]:
        return self._of(figure, lambda known: sum(known) / len(known))

    def greatest(self, figure: str) -> list[float | None]:
        return self._of(figure, max)

    def held(self, name: str) -> list[float]:
        return [
            float(max((getattr(window.held, name) for window in windows), default=0))
            for windows in self.gathered
        ]

    def bottlenecks(self) -> list[str]:
        """Return the bottleneck that most windows of each span have; "" where none has any."""
        found = []
        for windows in self.gathered:
            votes = Counter(window.held.bottleneck for window in windows)
            votes.pop(Bottleneck.NONE, None)
            found.append(votes.most_common(1)[0][0].value if votes else "")
        return found

    def _of(self, figure: str, make: Callable[[list[float]], float]) -> list[float | None]:
        known = [known_of(windows, figure) for windows in self.gathered]
        return [make(values) if values else None for values in known]


def spans_of(windows: Sequence[Window], window_s: int) -> Spans:
    """Gather the windows of one node; there is at least one."""
    first, last = windows[0].start_ms, windows[-1].start_ms
    count = (last - first) // (window_s * 1000) + 1
    together = -(-count // SPANS_MAX)
    span_ms = together * window_s * 1000
    pattern = "%H:%M:%S" if last - first < DAY_MS else "%m-%d %H:%M"
    labels = [moment(first + at * span_ms, pattern) for at in range(-(-count // together))]
    return Spans(first, span_ms, labels, []).same_times(windows)


def known_of(windows: Sequence[Window], figure: str) -> list[float]:
    """Return the figures that are known; -1 stands for none."""
    values = [window.known(figure) for window in windows]
    return [value for value in values if value is not None and value >= 0]


def moment(at_ms: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(pattern)
