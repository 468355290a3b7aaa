"""Telemetry as a page: what each node's bottleneck is, and the plots that show it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.diagnosis import ADVICE
from pyspark_warren.jobs.plots import lines, stacked_bars
from pyspark_warren.jobs.reports import Report

if TYPE_CHECKING:
    from pyspark_warren.jobs.telemetry import Telemetry, Window

QUEUES_SHOWN: Final = 20
RATES: Final = {
    "published": "publish_rate", "confirmed": "confirm_rate", "delivered": "deliver_get_rate",
    "acknowledged": "ack_rate",
}  # fmt: skip


def report_of(found: Telemetry) -> Report:
    report = Report("Telemetry")
    if not found.nodes:
        report.text("No events yet.")
    for node in found.nodes:
        _node(report, found, node)
    _queues(report, found)
    return report


def _node(report: Report, found: Telemetry, node: str) -> None:
    windows = found.of_node(node)
    moments = [_moment(window) for window in windows]
    diagnosis = found.diagnosis(node)
    report.heading(node)
    report.text(f"Bottleneck: {diagnosis}. {ADVICE[diagnosis.bottleneck]}", "verdict")
    report.text("Messages a second")
    report.plot(lines(moments, {name: _known(windows, figure) for name, figure in RATES.items()}))
    report.text("Messages in queues")
    report.plot(lines(moments, {"messages": _known(windows, "messages")}))
    report.text("Age of the oldest message at a head, seconds")
    ages = [None if age is None else age / 1000 for age in _known(windows, "head_message_age_ms")]
    report.plot(lines(moments, {"age": ages}))
    report.text("Who was held up")
    held = [window.held for window in windows]
    report.plot(
        stacked_bars(
            moments,
            {
                "connections in flow": [float(one.connections) for one in held],
                "channels in flow": [float(one.channels) for one in held],
                "queues in flow": [float(one.queues) for one in held],
                "blocked": [float(one.blocked) for one in held],
            },
        )
    )
    report.text("How busy the node was, per cent")
    busy = {"loop": _known(windows, "busy_percent"), "processors": _known(windows, "cpu_percent")}
    report.plot(lines(moments, busy))
    report.table(
        ("promotions", "synchronisations", "alarms", "seconds of flow"),
        [
            [
                *(int(_sum(windows, name)) for name in ("promotions", "synchronisations")),
                int(_sum(windows, "alarms")),
                round(_sum(windows, "connection_flow_ms") / 1000, 1),
            ]
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
        ("queue", "messages at most", "age of the head at most, s", "published/s", "delivered/s"),
        [
            [
                name,
                int(max(w.figure("messages") for w in windows)),
                max(w.figure("head_message_age_ms") for w in windows) / 1000,
                max(w.figure("publish_rate") for w in windows),
                max(w.figure("deliver_get_rate") for w in windows),
            ]
            for name, windows in deepest
        ],
    )


def _known(windows: Sequence[Window], figure: str) -> list[float | None]:
    return [window.figures.get(figure) for window in windows]


def _sum(windows: Sequence[Window], figure: str) -> float:
    return sum(window.figure(figure) for window in windows)


def _moment(window: Window) -> str:
    return datetime.fromtimestamp(window.start_ms / 1000, UTC).strftime("%H:%M:%S")
