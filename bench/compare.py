"""The main comparison: every scenario on every broker, alternating, the median of some repeats.

Alternating matters: what else the machine does, and how warm it is, then falls on all brokers
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.brokers import Broker
from bench.load import LoadFailed, Measurement, disturbances, losses, measure, median
from bench.report import Table, pair, rate, times
from bench.scenarios import Scenario

COLUMNS = (
    "scenario", "broker", "msg/s", "CPU us/msg", "latency p50 / p99 ms", "confirm p50 / p99 ms",
    "rate", "CPU", "p99",
)  # fmt: skip


def compare(
    brokers: Sequence[Broker],
    scenarios: Sequence[Scenario],
    repeats: int,
    seconds: float,
    say: Callable[[str], None],
) -> Table:
    table = Table("Throughput and latency", COLUMNS)
    all_done: list[Measurement] = []
    for scenario in scenarios:
        runs: dict[str, list[Measurement]] = {broker.name: [] for broker in brokers}
        for repeat in range(repeats):
            for broker in brokers if repeat % 2 == 0 else brokers[::-1]:
                say(f"{scenario.name}: {broker.name}, run {repeat + 1} of {repeats}")
                try:
                    runs[broker.name].append(measure(broker, scenario.options(seconds)))
                except LoadFailed as failure:
                    table.failures.append(f"{scenario.name}, {broker.name}: {failure}")
        done = {name: median(results) for name, results in runs.items() if results}
        add_rows(table, scenario, done)
        all_done += done.values()
    table.notes += disturbances(all_done)
    table.notes.append(
        f"Median of {repeats} runs of {seconds:g} s each, brokers alternating. The last three "
        "columns are relative to RabbitMQ in the same run; a smaller CPU and p99 are better. "
        "At full speed latency only tells how much lies in buffers; compare it where the rate is "
        "given."
    )
    return table


def add_rows(table: Table, scenario: Scenario, results: dict[str, Measurement]) -> None:
    base = results.get("RabbitMQ") if len(results) > 1 else None
    for broker, result in results.items():
        table.rows.append(
            (
                f"{scenario.name}: {scenario.title}",
                broker,
                rate(result.rate),
                f"{result.cpu_us:.2f}",
                pair(result.latency_p50_ms, result.latency_p99_ms),
                pair(result.confirm_p50_ms, result.confirm_p99_ms),
                "" if scenario.paced else times(result.rate, base.rate if base else None),
                times(result.cpu_us, base.cpu_us if base else None),
                times(result.latency_p99_ms, base.latency_p99_ms)
                if base and scenario.paced
                else "",
            )
        )
        table.notes += losses(f"{scenario.name}, {broker}", result)
