"""Report of an audit as a page: the verdict, what each node has, and what differs where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.plots import bars_across, stacked_bars
from pyspark_warren.jobs.reports import Report

if TYPE_CHECKING:
    from pyspark_warren.jobs.audited import Audited

SHOWN: Final = 200
"""Rows of each table; all are in what the job prints."""
KINDS: Final = ("missing", "divergent", "duplicate", "absent")


def report_of(done: Audited) -> Report:
    report = Report("Copies of queues and streams")
    report.text(f"{done.verdict[0].upper()}{done.verdict[1:]}.", "verdict")
    nodes = list(done.nodes)
    figures = list(done.nodes.values())
    report.plot(
        "Messages and records on each node",
        stacked_bars(
            nodes,
            {
                "messages in queues": [float(node.messages) for node in figures],
                "records in streams": [float(node.records) for node in figures],
                "messages that cannot be read": [float(node.lost) for node in figures],
            },
        ),
    )
    report.plot(
        "Bytes of queues' files on each node",
        stacked_bars(
            nodes,
            {
                "messages": [float(node.live_bytes) for node in figures],
                "heads, index, not yet freed": [
                    float(max(0, node.file_bytes - node.live_bytes)) for node in figures
                ],
            },
        ),
    )
    _findings(report, done)
    report.heading("Nodes")
    report.table(
        ("node", "queues", "messages", "streams", "records", "bytes of queues' files", "unused"),
        [
            [name, node.queues, node.messages, node.streams, node.records, node.file_bytes,
             f"{node.garbage:.0%}"]
            for name, node in done.nodes.items()
        ],
    )  # fmt: skip
    return report


def _findings(report: Report, done: Audited) -> None:
    counted = done.by_queue()
    kinds = {
        kind: float(sum(counts[kind] for counts in counted.values()))
        for kind in KINDS
        if any(counts[kind] for counts in counted.values())
    }
    kinds |= {"damage": float(len(done.damage))} if done.damage else {}
    if done.confirmed_missing:
        kinds["confirmed and missing"] = float(len(done.confirmed_missing))
    report.plot("Findings by kind", bars_across(kinds))
    totals = {queue: float(counts.total()) for queue, counts in counted.items()}
    if totals:
        report.plot("Findings by queue", bars_across(totals))
    if done.absent:
        report.heading("Queues and streams that a node lacks")
        report.table(
            ("kind", "queue", "virtual host", "on", "not on"),
            [
                [one.kind, one.queue, one.vhost, ", ".join(one.on), ", ".join(one.not_on)]
                for one in done.absent[:SHOWN]
            ],
        )
    if done.differences:
        report.heading("Differences")
        report.table(
            ("kind", "queue", "virtual host", "message id or offset", *done.nodes),
            [
                [one.kind, one.queue, one.vhost,
                 one.what,
                 *(one.copies.get(node) for node in done.nodes)]
                for one in done.differences[:SHOWN]
            ],
        )  # fmt: skip
        report.text("How often each node has it.", "nothing")
    for title, texts in (
        ("Damage", done.damage),
        ("Confirmed and on no node", done.confirmed_missing),
    ):
        if texts:
            report.heading(title)
            report.table((), [[text] for text in texts[:SHOWN]])
