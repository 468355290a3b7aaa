"""What a broker told in windows of time, and the files in which that is kept.

A batch says anew what is known of the windows it touches, and its word replaces what was said
before. So each batch has a file under its number, and whoever reads all files in their order has
the latest of every window. As a job may run for months, files are put together now and then, and
the oldest windows are forgotten: a file with all that is known is written first, and what it makes
superfluous is deleted after that, so that there is never less than all.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.diagnosis import Bottleneck, Diagnosis, Held, diagnose

if TYPE_CHECKING:
    from pyspark_warren.jobs.files import Files

FOLDER: Final = "windows"
FILES_MAX: Final = 100
WINDOWS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class Window:
    """What one node told, of itself or of one of its queues (`subject`), in one window."""

    start_ms: int
    node: str
    subject: str
    figures: dict[str, float | None]

    def figure(self, name: str) -> float:
        return self.figures.get(name) or 0.0

    @property
    def key(self) -> tuple[int, str, str]:
        return self.start_ms, self.node, self.subject

    @property
    def held(self) -> Held:
        """By figures, which are looked at now and then, or by states, which are told of."""

        def most(figure: str, kind: str) -> int:
            return int(max(self.figure(figure), self.figure(f"{kind}_flow_events")))

        return Held(
            most("connections_in_flow", "connection"),
            most("channels_in_flow", "channel"),
            most("queues_in_flow", "queue"),
            int(max(self.figure("connections_blocked"), self.figure("connection_blocked_events"))),
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """Windows one after the other that all say the same."""

    bottleneck: Bottleneck
    start_ms: int
    end_ms: int


@dataclass
class Telemetry:
    """All windows, in order."""

    windows: list[Window] = field(default_factory=list)
    window_s: int = 10

    @property
    def nodes(self) -> list[str]:
        return sorted({window.node for window in self.windows if window.node})

    def of_node(self, node: str) -> list[Window]:
        return [window for window in self.windows if (window.node, window.subject) == (node, "")]

    def of_queues(self) -> dict[str, list[Window]]:
        found: dict[str, list[Window]] = {}
        for window in self.windows:
            if window.subject:
                found.setdefault(window.subject, []).append(window)
        return found

    def diagnosis(self, node: str) -> Diagnosis:
        return diagnose(window.held for window in self.of_node(node))

    def episodes(self, node: str) -> list[Episode]:
        """In which somebody was held, in order."""
        found: list[Episode] = []
        for window in self.of_node(node):
            bottleneck = window.held.bottleneck
            end_ms = window.start_ms + self.window_s * 1000
            last = found[-1] if found else None
            if bottleneck is Bottleneck.NONE:
                continue
            if last and (last.bottleneck, last.end_ms) == (bottleneck, window.start_ms):
                found[-1] = Episode(bottleneck, last.start_ms, end_ms)
            else:
                found.append(Episode(bottleneck, window.start_ms, end_ms))
        return found


class WindowFiles:
    """What is kept of earlier runs, and of this one."""

    def __init__(self, files: Files, windows_max: int = WINDOWS_MAX) -> None:
        self._files = files
        self._windows_max = windows_max
        self._names = files.names(FOLDER)
        self._latest: dict[tuple[int, str, str], Window] = {}
        for name in self._names:
            for line in files.read(f"{FOLDER}/{name}").splitlines():
                window = Window(**json.loads(line))
                self._latest[window.key] = window
        self._forget()

    def all(self) -> list[Window]:
        """In order."""
        return [self._latest[key] for key in sorted(self._latest)]

    def keep(self, batch: int, windows: Iterable[Window]) -> None:
        """Bears to be called again with the same batch."""
        told = list(windows)
        self._latest.update((window.key, window) for window in told)
        self._forget()
        if len(self._names) >= FILES_MAX:
            self._put_together(batch)
            return
        name = f"{batch:010d}.json"
        self._files.delete(f"{FOLDER}/{name}")
        self._files.write(f"{FOLDER}/{name}", _text(told))
        self._names = [*(other for other in self._names if other != name), name]

    def _put_together(self, batch: int) -> None:
        """Under a name of its own: what is there already must not be touched before it is."""
        name = f"{batch:010d}-{uuid.uuid4().hex[:8]}.json"
        self._files.write(f"{FOLDER}/{name}", _text(self.all()))
        for old in self._names:
            self._files.delete(f"{FOLDER}/{old}")
        self._names = [name]

    def _forget(self) -> None:
        for key in sorted(self._latest)[: -self._windows_max]:
            del self._latest[key]


def _text(windows: Iterable[Window]) -> str:
    return "\n".join(json.dumps(asdict(window)) for window in windows)
