"""Report of a run: a dictionary with mqload's names, and a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from warren.perf.runner import Run
from warren.perf.tally import Histogram

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


def report(run: Run) -> dict[str, Any]:
    most = max(run.published, run.consumed, 1)
    found: dict[str, Any] = {
        **_counts(run),
        **_rates(run),
        "latency_us": percentiles([c.tally.latency for c in run.consumers]),
    }
    if run.load.options.confirm:
        found["confirm_latency_us"] = percentiles([p.latency for p in run.producers])
    found |= _disturbances(run)
    found["cpu_seconds"] = round(run.cpu_seconds, 3)
    found["cpu_us_per_msg"] = round(run.cpu_seconds * 1e6 / most, 3)
    found["wall_seconds"] = round(run.elapsed, 3)
    if run.meter.pids:
        found["broker_cpu_seconds"] = round(run.broker_cpu_seconds, 2)
        found["broker_cpu_us_per_msg"] = round(run.broker_cpu_seconds * 1e6 / most, 2)
        found["broker_rss_kb"] = run.broker_rss_kb
        found["broker_rss_peak_kb"] = run.meter.rss_peak_kb
        found["other_busy_cores"] = round(run.other_busy_cores, 2)
    return found | {"close_code": run.load.close_code, "errors": run.load.errors}


def _counts(run: Run) -> dict[str, int]:
    producers, tallies = run.producers, [c.tally for c in run.consumers]
    return {
        "published": run.published,
        "confirmed": sum(p.confirmed for p in producers),
        "nacked": sum(p.nacked for p in producers),
        "returned": sum(p.returned for p in producers),
        "consumed": run.consumed,
        "redelivered": sum(t.redelivered for t in tallies),
        "duplicates": sum(t.duplicates for t in tallies),
        "missing": _missing(run),
        "lost_confirmed": _lost_confirmed(run),
    }


def _received(run: Run, group: int, producer: int) -> int:
    """The sequence numbers that came, as the bits of one integer."""
    numbers = run.load.received.get((group, producer))
    return numbers.as_integer() if numbers is not None else 0


def _is_tracked(run: Run) -> bool:
    options = run.load.options
    return bool(run.consumers) and options.size >= 16 and not options.drain


def _missing(run: Run) -> int:
    options = run.load.options
    if options.drain and options.expect:
        return options.expect - run.fresh
    if not _is_tracked(run):
        return 0
    return sum(
        ((1 << p.published) - 1 & ~_received(run, group, p.number)).bit_count()
        for p in run.producers
        for group in range(options.copies)
    )


def _lost_confirmed(run: Run) -> int:
    if not _is_tracked(run):
        return 0
    return sum(
        (p.confirmed_sequences.as_integer() & ~_received(run, group, p.number)).bit_count()
        for p in run.producers
        for group in range(run.load.options.copies)
    )


def _rates(run: Run) -> dict[str, float]:
    tallies = [c.tally for c in run.consumers if c.tally.consumed]
    publish = _span([p.first_ns for p in run.producers], [p.last_ns for p in run.producers])
    consume = _span([t.first_ns for t in tallies], [t.last_ns for t in tallies])
    return {
        "publish_rate": round(run.published / publish) if publish else 0,
        "consume_rate": round(run.consumed / consume) if consume else 0,
        "publish_seconds": round(publish, 3),
        "consume_seconds": round(consume, 3),
        "consumed_when_publish_ended": run.consumed_when_publish_ended,
        "consume_mb_s": round(sum(t.bytes for t in tallies) / consume / 1e6, 1) if consume else 0,
    }


def _span(first: Sequence[int], last: Sequence[int]) -> float:
    return max(max(last) - min(first), 0) / 1e9 if first else 0.0


def percentiles(histograms: Sequence[Histogram]) -> dict[str, float]:
    whole = Histogram()
    for histogram in histograms:
        whole.merge(histogram)
    found = {f"p{percent:g}": round(whole.percentile(percent) / 1000) for percent in PERCENTILES}
    if not whole.count:
        found = dict.fromkeys(found, -1)
    return {**found, "max": round(whole.highest / 1000) if whole.count else -1}


def _disturbances(run: Run) -> dict[str, float]:
    confirm = max(run.producers, key=lambda p: p.gap_ns, default=None)
    deliver = max((c.tally for c in run.consumers), key=lambda t: t.gap_ns, default=None)
    started_ns = run.load.started_ns
    return {
        "max_confirm_gap_ms": round(confirm.gap_ns / 1e6, 1) if confirm else 0.0,
        "max_confirm_gap_at_s": round(confirm.gap_at_ns / 1e9, 2) if confirm else 0.0,
        "max_deliver_gap_ms": round(deliver.gap_ns / 1e6, 1) if deliver else 0.0,
        "max_deliver_gap_at_s": round(max(deliver.gap_at_ns - started_ns, 0) / 1e9, 2)
        if deliver
        else 0.0,
        "reconnects": sum(worker.reconnects for worker in run.workers),
        "blocked": sum(worker.times_blocked for worker in run.workers),
        "blocked_seconds": round(sum(worker.blocked_seconds for worker in run.workers), 2),
        "flow": sum(worker.flow_changes for worker in run.workers),
    }


# Names of figures for people, where the key of the JSON report says too little.
LABELS: Final = {
    "publish_rate": "published per second",
    "consume_rate": "consumed per second",
    "consume_mb_s": "consumed, MB per second",
    "latency_us": "latency, microseconds",
    "confirm_latency_us": "latency of confirms, microseconds",
    "max_confirm_gap_ms": "longest time without a confirm, ms",
    "max_confirm_gap_at_s": "  it began after, s",
    "max_deliver_gap_ms": "longest time without a delivery, ms",
    "max_deliver_gap_at_s": "  it began after, s",
    "cpu_seconds": "CPU of this tool, s",
    "cpu_us_per_msg": "CPU of this tool per message, microseconds",
    "broker_cpu_us_per_msg": "broker CPU per message, microseconds",
    "flow": "changes of channel.flow",
}


def show(found: dict[str, Any], console: Console) -> None:
    """The same for a person: what is zero or unknown is left out."""
    table = Table(show_header=False, box=None)
    for name, value in found.items():
        if isinstance(value, dict) and -1 in value.values():
            continue  # nothing was measured
        if value in (0, -1, [], "") and name not in {"published", "consumed", "missing"}:
            continue
        if isinstance(value, dict):
            text = "  ".join(f"{key} {number:,}" for key, number in value.items())
        elif isinstance(value, list):
            text = "\n".join(value)
        else:
            text = f"{value:,}"
        table.add_row(LABELS.get(name, name.replace("_", " ")), text)
    console.print(table)
