"""Windows of time with what a broker told in them, and the files in which they are kept.

A batch of events touches some windows and is merged into them: sums and counts are added, and the
greater of two greatest figures is kept. The windows that a batch has touched are written to a file
together with the offset where the next batch begins, in one step; so each event counts once,
whenever the job is killed. All files read in their order give the latest of
every window.

As a job may run for months, files are put together now and then, and the oldest windows are
discarded: a file with all that is known is written first, and what it makes superfluous is deleted
after that, so that there is never less than all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from sys import intern
from typing import TYPE_CHECKING, Any, Final

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.diagnosis import Bottleneck, Diagnosis, Held, LoopShares, diagnose

if TYPE_CHECKING:
    from pyspark_warren.jobs.state_files import StateFiles

FOLDER: Final = "summaries"
FILES_MAX: Final = 100
WINDOWS_MAX: Final = 200_000
Mean = tuple[float, int]
"""A sum, and of how many figures."""


@dataclass(frozen=True, slots=True)
class Window:
    """One window of one node, or of one of its queues (`subject`).

    Figures are greatest ones in `greatest`, counts and sums in `sums`, and in `means` what is shown
    as a mean.
    """

    start_ms: int
    node: str
    subject: str
    greatest: dict[str, float] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    means: dict[str, Mean] = field(default_factory=dict)

    def known(self, name: str) -> float | None:
        if name in self.means:
            total, count = self.means[name]
            return total / count
        return self.greatest.get(name, self.sums.get(name))

    def figure(self, name: str) -> float:
        return self.known(name) or 0.0

    @property
    def key(self) -> tuple[int, str, str]:
        return self.start_ms, self.node, self.subject

    def merged(self, other: Window) -> Window:
        """Return this window with what later events of it told."""
        assert self.key == other.key, "only the same window can be merged"
        greatest, sums, means = dict(self.greatest), dict(self.sums), dict(self.means)
        for name, value in other.greatest.items():
            greatest[name] = max(value, greatest.get(name, value))
        for name, value in other.sums.items():
            sums[name] = sums.get(name, 0.0) + value
        for name, (total, count) in other.means.items():
            before, count_before = means.get(name, (0.0, 0))
            means[name] = before + total, count_before + count
        return replace(self, greatest=greatest, sums=sums, means=means)

    @property
    def held(self) -> Held:
        """How many were held: by figures, which are taken now and then, or by events of states."""

        def most(figure: str, kind: str) -> int:
            return int(max(self.figure(figure), self.figure(f"{kind}_flow_events")))

        # Of one that does not tell how long its loop ran, the time of all threads is no less.
        ran = self.known("loop_cpu_percent")
        return Held(
            most("connections_in_flow", "connection"),
            most("channels_in_flow", "channel"),
            most("queues_in_flow", "queue"),
            int(max(self.figure("connections_blocked"), self.figure("connection_blocked_events"))),
            LoopShares(
                self.figure("busy_percent"),
                self.known("cpu_percent") if ran is None else ran,
                self.figure("steal_percent"),
            ),
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """Windows one after the other that have the same bottleneck."""

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
        """Return when the node had a bottleneck, in order."""
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
    """Files with the windows of all runs so far. One job at a time writes them."""

    def __init__(
        self, files: StateFiles, stream: str, window_s: int, windows_max: int = WINDOWS_MAX
    ) -> None:
        """Read what is there. Raises InvalidOption if it is of another stream or window."""
        self._files = files
        self._about: dict[str, Any] = {"stream": stream, "window_s": window_s}
        self._windows_max = windows_max
        self._names = files.names(FOLDER)
        self._latest: dict[tuple[int, str, str], Window] = {}
        self.next_offset: int | None = None
        """Where the next batch begins; None before the first."""
        self.batches = 0
        for name in self._names:
            self._read(name)
        self._discard()

    def all(self) -> list[Window]:
        """Return all windows in order."""
        return [self._latest[key] for key in sorted(self._latest)]

    def keep(self, told: Iterable[Window], next_offset: int) -> None:
        """Merge what a batch told, and remember that it has been taken in."""
        touched = []
        for window in told:
            known = self._latest.get(window.key)
            self._latest[window.key] = window if known is None else known.merged(window)
            touched.append(self._latest[window.key])
        self._discard()
        is_full = len(self._names) >= FILES_MAX
        name = f"{self.batches:010d}.json"
        if self._files.exists(f"{FOLDER}/{name}"):
            raise InvalidOption(
                f"option state: another job has written batch {self.batches} there; let one job "
                "use a state at a time, and start this one again"
            )
        head = {**self._about, "next_offset": next_offset, "batches": self.batches + 1}
        text = _text(head, self.all() if is_full else touched)
        self._files.write(f"{FOLDER}/{name}", text)
        self.batches += 1
        self.next_offset = next_offset
        if is_full:
            for old in self._names:
                self._files.delete(f"{FOLDER}/{old}")
            self._names = []
        self._names.append(name)

    def _read(self, name: str) -> None:
        first, *lines = self._files.read(f"{FOLDER}/{name}").splitlines()
        head = json.loads(first)
        for key, wanted in self._about.items():
            if head[key] != wanted:
                raise InvalidOption(
                    f"option state: what is there is of {key} {head[key]!r}, and not of "
                    f"{wanted!r}; give another directory"
                )
        self.next_offset, self.batches = head["next_offset"], head["batches"]
        for line in lines:
            window = _window(json.loads(line))
            self._latest[window.key] = window

    def _discard(self) -> None:
        for key in sorted(self._latest)[: -self._windows_max]:
            del self._latest[key]


def _window(fields: dict[str, Any]) -> Window:
    """Return a window that was read. Names are shared: there are many windows, and few names."""
    return Window(
        fields["start_ms"],
        intern(fields["node"]),
        intern(fields["subject"]),
        {intern(name): value for name, value in fields["greatest"].items()},
        {intern(name): value for name, value in fields["sums"].items()},
        {intern(name): (total, count) for name, (total, count) in fields["means"].items()},
    )


def _text(head: dict[str, Any], windows: Iterable[Window]) -> str:
    return "\n".join([json.dumps(head), *(json.dumps(asdict(window)) for window in windows)])
