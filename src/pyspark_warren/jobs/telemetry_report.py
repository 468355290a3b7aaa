"""Telemetry as a page: what each node's bottleneck is, and the plots that show it.

A job may have seen minutes or months. Time is cut into so many equal spans that each is a window or
some pixels wide; where nothing was told, there is a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.diagnosis import ADVICE, Bottleneck
from pyspark_warren.jobs.plots import lines, stacked_bars
from pyspark_warren.jobs.reports import Report

if TYPE_CHECKING:
    from pyspark_warren.jobs.windows import Telemetry, Window

QUEUES_SHOWN: Final = 20
EPISODES_SHOWN: Final = 50
SPANS_MAX: Final = 300
DAY_MS: Final = 86_400_000
RATES: Final = {
    "published": "publish_rate", "confirmed": "confirm_rate", "delivered": "deliver_get_rate",
    "acknowledged": "ack_rate",
}  # fmt: skip
BUSY: Final = {"the node's loop": "busy_percent", "all its threads": "cpu_percent"}


@dataclass(frozen=True, slots=True)
class Spans:
    """Windows of a node, gathered in equal spans of time."""

    labels: list[str]
    gathered: list[list[Window]]

    def means(self, figure: str) -> list[float | None]:
        return self._of(figure, lambda known: sum(known) / len(known))

    def greatest(self, figure: str) -> list[float | None]:
        return self._of(figure, max)

    def _of(self, figure: str, make: Callable[[list[float]], float]) -> list[float | None]:
        known = [_known(windows, figure) for windows in self.gathered]
        return [make(values) if values else None for values in known]

    def held(self, name: str) -> list[float]:
        return [
            float(max((getattr(window.held, name) for window in windows), default=0))
            for windows in self.gathered
        ]


def spans_of(windows: Sequence[Window], window_s: int) -> Spans:
    """Of one node; there is at least one."""
    first, last = windows[0].start_ms, windows[-1].start_ms
    count = (last - first) // (window_s * 1000) + 1
    together = -(-count // SPANS_MAX)
    span_ms = together * window_s * 1000
    gathered: list[list[Window]] = [[] for _ in range(-(-count // together))]
    for window in windows:
        gathered[(window.start_ms - first) // span_ms].append(window)
    pattern = "%H:%M:%S" if last - first < DAY_MS else "%m-%d %H:%M"
    return Spans([_moment(first + at * span_ms, pattern) for at in range(len(gathered))], gathered)


def report_of(found: Telemetry) -> Report:
    report = Report("Telemetry")
    if not found.nodes:
        report.text("No events yet.")
        return report
    start, end = found.windows[0].start_ms, found.windows[-1].start_ms + found.window_s * 1000
    report.text(
        f"From {_moment(start)} to {_moment(end)} UTC, in windows of {found.window_s} seconds."
    )
    for node in found.nodes:
        _node(report, found, node)
    _queues(report, found)
    return report


def _node(report: Report, found: Telemetry, node: str) -> None:
    windows = found.of_node(node)
    diagnosis = found.diagnosis(node)
    report.heading(node)
    is_held = diagnosis.bottleneck is not Bottleneck.NONE
    verdict = f"Bottleneck: {diagnosis}." if is_held else "No bottleneck."
    report.text(f"{verdict} {ADVICE[diagnosis.bottleneck]}", "verdict")
    if not windows:
        return
    spans = spans_of(windows, found.window_s)
    labels = spans.labels
    rates = {name: spans.means(figure) for name, figure in RATES.items()}
    report.plot("Messages a second", lines(labels, rates))
    report.plot("Messages in queues", lines(labels, {"messages": spans.greatest("messages")}))
    ages = [None if age is None else age / 1000 for age in spans.greatest("head_message_age_ms")]
    report.plot(
        "Age of the oldest message at the head of a queue, seconds", lines(labels, {"age": ages})
    )
    held = {
        "connections in flow": spans.held("connections"),
        "channels in flow": spans.held("channels"),
        "queues in flow": spans.held("queues"),
        "connections blocked": spans.held("blocked"),
    }
    report.plot(
        "Who was held up in a window: how many, or how often if that is more",
        stacked_bars(labels, held),
    )
    busy = {name: spans.means(figure) for name, figure in BUSY.items()}
    report.plot("How busy the node was, per cent of one processor", lines(labels, busy, least=100))
    _episodes(report, found, node)
    report.table(
        ("promotions", "synchronisations", "alarms", "seconds of flow, of all connections"),
        [
            [
                *(
                    int(_sum(windows, name))
                    for name in ("promotions", "synchronisations", "alarms")
                ),
                round(_sum(windows, "connection_flow_ms") / 1000, 1),
            ]
        ],
    )


def _episodes(report: Report, found: Telemetry, node: str) -> None:
    episodes = found.episodes(node)
    if not episodes:
        return
    report.table(
        ("held up from (UTC)", "seconds", "by"),
        [
            [_moment(one.start_ms), (one.end_ms - one.start_ms) // 1000, one.bottleneck.value]
            for one in episodes[-EPISODES_SHOWN:]
        ],
    )


def _queues(report: Report, found: Telemetry) -> None:
    deepest = sorted(
        found.of_queues().items(), key=lambda item: -max(w.figure("messages") for w in item[1])
    )[:QUEUES_SHOWN]
    if not deepest:
        return
    report.heading("Deepest queues")
    report.table(
        ("queue", "messages", "age of its head, s", "published/s", "delivered/s"),
        [
            [
                name,
                int(max(w.figure("messages") for w in windows)),
                max((age / 1000 for age in _known(windows, "head_message_age_ms")), default=None),
                max(w.figure("publish_rate") for w in windows),
                max(w.figure("deliver_get_rate") for w in windows),
            ]
            for name, windows in deepest
        ],
    )
    report.text("The most there was of each in a window.", "nothing")


def _known(windows: Sequence[Window], figure: str) -> list[float]:
    """-1 stands for none."""
    values = [window.figures.get(figure) for window in windows]
    return [value for value in values if value is not None and value >= 0]


def _sum(windows: Sequence[Window], figure: str) -> float:
    return sum(window.figure(figure) for window in windows)


def _moment(at_ms: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(pattern)
