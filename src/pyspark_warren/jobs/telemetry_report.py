"""Report of telemetry as a page: what each node's bottleneck is, and the plots that show it.

A job may have seen minutes or months. Time is cut into so many equal spans that each is a window or
some pixels wide; where nothing was told, there is a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.diagnosis import ADVICE, Bottleneck
from pyspark_warren.jobs.reports import Report
from pyspark_warren.jobs.spans import Spans, known_of, moment, spans_of
from pyspark_warren.jobs.time_plots import lines, stacked_areas, strips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark_warren.jobs.windows import Telemetry, Window

QUEUES_SHOWN: Final = 20
AGES_SHOWN: Final = 5
EPISODES_SHOWN: Final = 50
MIB: Final = 1_048_576
RATES: Final = {
    "published": "publish_rate", "confirmed": "confirm_rate", "delivered": "deliver_get_rate",
    "acknowledged": "ack_rate", "redelivered": "redeliver_rate",
}  # fmt: skip
PROCESSORS: Final = {
    "loop had work": "busy_percent", "loop ran": "loop_cpu_percent",
    "all threads ran": "cpu_percent", "stolen by other machines": "steal_percent",
}  # fmt: skip
HELD: Final = {
    "connections": "connections", "channels": "channels", "queues": "queues", "blocked": "blocked",
}  # fmt: skip
HELD_UP: Final = "held up"
BOTTLENECKS: Final = tuple(one.value for one in Bottleneck if one is not Bottleneck.NONE)


def report_of(found: Telemetry) -> Report:
    report = Report("Telemetry")
    if not found.nodes:
        report.text("No events yet.")
        return report
    start, end = found.windows[0].start_ms, found.windows[-1].start_ms + found.window_s * 1000
    report.text(
        f"From {moment(start)} to {moment(end)} UTC, in windows of {found.window_s} seconds."
    )
    queues = found.of_queues()
    for node in found.nodes:
        _node(report, found, node)
    _queues(report, found, queues)
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
    depth = {
        "ready": spans.greatest("backlog"),
        "unacknowledged": spans.greatest("messages_unacknowledged"),
    }
    report.plot("Messages in queues, without streams", stacked_areas(labels, depth))
    records = spans.greatest("stream_records")
    if any(records):
        report.plot("Records in streams, which are no backlog", lines(labels, {"records": records}))
    _ages(report, found, node, spans)
    _held(report, spans)
    shares = {name: spans.means(figure) for name, figure in PROCESSORS.items()}
    report.plot(
        "Processors: per cent of the time of one (stolen: of all)",
        lines(labels, shares, least=100),
    )
    load = {
        "load of the machine": spans.greatest("load"),
        "processors": spans.greatest("processors"),
    }
    report.plot("Threads of the machine that run or wait for a processor", lines(labels, load))
    memory = {
        name: [None if size is None else size / MIB for size in spans.greatest(figure)]
        for name, figure in (("used", "memory_used"), ("limit", "memory_limit"))
    }
    if not any(memory["limit"]):
        del memory["limit"]
    report.plot("Memory, MiB", lines(labels, memory))
    _episodes(report, found, node)
    _counts(report, windows)


def _ages(report: Report, found: Telemetry, node: str, spans: Spans) -> None:
    """Plot the age of the oldest head, and of the heads of those queues where it was greatest."""
    of_queues = {
        name: own
        for name, windows in found.of_queues().items()
        if (own := [window for window in windows if window.node == node])
        and any(known_of(own, "head_message_age_ms"))
    }
    oldest = sorted(
        of_queues, key=lambda name: -max(known_of(of_queues[name], "head_message_age_ms"))
    )
    series = {"oldest of all": spans.greatest("head_message_age_ms")}
    for name in oldest[:AGES_SHOWN]:
        series[name] = spans.same_times(of_queues[name]).greatest("head_message_age_ms")
    seconds = {
        name: [None if age is None else age / 1000 for age in ages] for name, ages in series.items()
    }
    report.plot("Age of the message at the head of a queue, seconds", lines(spans.labels, seconds))


def _held(report: Report, spans: Spans) -> None:
    """Show when what was in flow or blocked, and what that says."""
    rows = {
        name: [HELD_UP if number else "" for number in spans.held(attribute)]
        for name, attribute in HELD.items()
    }
    rows["verdict"] = spans.bottlenecks()
    kinds = [HELD_UP, *(kind for kind in BOTTLENECKS if kind in rows["verdict"])]
    report.plot("Flow: what was held up, and by what", strips(spans.labels, rows, kinds))


def _episodes(report: Report, found: Telemetry, node: str) -> None:
    episodes = found.episodes(node)
    if not episodes:
        return
    report.table(
        ("held up from (UTC)", "seconds", "by"),
        [
            [moment(one.start_ms), (one.end_ms - one.start_ms) // 1000, one.bottleneck.value]
            for one in episodes[-EPISODES_SHOWN:]
        ],
    )
    if len(episodes) > EPISODES_SHOWN:
        report.text(f"The latest {EPISODES_SHOWN} of {len(episodes)}.", "nothing")


def _counts(report: Report, windows: Sequence[Window]) -> None:
    names = ("promotions", "synchronisations", "alarms")
    held_s = round(_sum(windows, "connection_flow_ms") / 1000, 1)
    report.table(
        (*names, "seconds of flow, of all connections"),
        [[*(int(_sum(windows, name)) for name in names), held_s]],
    )


def _queues(report: Report, found: Telemetry, queues: dict[str, list[Window]]) -> None:
    streams = {
        name: windows
        for name, windows in queues.items()
        if any(window.figure("is_stream") for window in windows)
    }
    others = {name: windows for name, windows in queues.items() if name not in streams}
    for title, chosen, unit in (
        ("Deepest queues", others, "messages"),
        ("Longest streams", streams, "records"),
    ):
        deepest = sorted(chosen.items(), key=lambda item: -_greatest(item[1], "messages"))
        if not deepest:
            continue
        report.heading(title)
        columns = ("queue", unit, "unacknowledged", "age of its head, s", "published/s",
                   "delivered/s")  # fmt: skip
        report.table(columns, [_row(name, windows) for name, windows in deepest[:QUEUES_SHOWN]])
        report.text("The most there was of each in a window.", "nothing")


def _row(name: str, windows: Sequence[Window]) -> list[object]:
    ages = known_of(windows, "head_message_age_ms")
    return [
        name,
        int(_greatest(windows, "messages")),
        int(_greatest(windows, "messages_unacknowledged")),
        max(ages) / 1000 if ages else None,
        _greatest(windows, "publish_rate"),
        _greatest(windows, "deliver_get_rate"),
    ]


def _greatest(windows: Sequence[Window], figure: str) -> float:
    return max(window.figure(figure) for window in windows)


def _sum(windows: Sequence[Window], figure: str) -> float:
    return sum(window.figure(figure) for window in windows)
