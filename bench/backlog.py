"""A deep queue: how fast it fills, how much memory it takes, how fast it drains.

A queue is filled by a publisher that waits for confirms, then half as much again is published on
top of it: a rate that falls with the depth is what makes a broker die of its own backlog. Then it
is drained. Every broker starts afresh for each mode, so that memory freed by one backlog does not
hide what the next one takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.brokers import STARTERS, Broker, NotInstalled
from bench.load import LoadFailed, run
from bench.report import Table, rate, times

MESSAGES: Final = 1_000_000
SECONDS_MAX: Final = 170
SETTLE_SECONDS: Final = 2.0
MODES: Final = {"default": "", "lazy": "--queue-arg x-queue-mode=lazy"}
QUEUE: Final = "--queue qe --durable"
PUBLISH: Final = "--persistent --size 1024 --publish-only --confirm 500"
DRAIN: Final = "--drain --prefetch 500 --ack-every 100 --delete-after"
COLUMNS: Final = (
    "queue", "broker", "publish/s", "CPU us/msg", "publish/s when deep", "RSS growth MiB",
    "drain/s", "CPU us/msg", "fills", "drains",
)  # fmt: skip


@dataclass(frozen=True)
class Backlog:
    publish_rate: float
    publish_cpu_us: float
    deep_publish_rate: float
    rss_growth_mib: float
    drain_rate: float
    drain_cpu_us: float


def backlogs(starters: Sequence[str], messages: int, say: Callable[[str], None]) -> Table:
    table = Table(f"A backlog of {messages:,} messages of 1 KB", COLUMNS)
    for mode, arguments in MODES.items():
        results: dict[str, Backlog] = {}
        for starter in starters:
            say(f"backlog, {mode}: {starter}")
            try:
                with STARTERS[starter]() as broker:
                    results[broker.name] = fill_and_drain(broker, arguments, messages)
            except (NotInstalled, LoadFailed) as failure:
                table.failures.append(f"backlog, {mode}, {starter}: {failure}")
        add_rows(table, mode, results)
    table.notes.append(
        "One publisher with a window of 500 confirms; `when deep`: half as many again on top. "
        "Memory is what remained two seconds after the last confirm. The last two columns are "
        "relative to RabbitMQ."
    )
    return table


def fill_and_drain(broker: Broker, arguments: str, messages: int) -> Backlog:
    idle_kb = broker.rss_kb()
    filled = load(broker, f"{QUEUE} {arguments} --declare {PUBLISH} --count {messages}")
    time.sleep(SETTLE_SECONDS)
    rss_growth_mib = (broker.rss_kb() - idle_kb) / 1024
    deep = load(broker, f"{QUEUE} {PUBLISH} --count {messages // 2}")
    total = messages + messages // 2
    drained = load(broker, f"{QUEUE} {DRAIN} --expect {total}")
    if drained["consumed"] < total:
        raise LoadFailed(f"only {drained['consumed']} of {total} messages came back")
    return Backlog(
        publish_rate=filled["publish_rate"],
        publish_cpu_us=filled["broker_cpu_us_per_msg"],
        deep_publish_rate=deep["publish_rate"],
        rss_growth_mib=rss_growth_mib,
        drain_rate=drained["consume_rate"],
        drain_cpu_us=drained["broker_cpu_us_per_msg"],
    )


def load(broker: Broker, options: str) -> dict[str, float]:
    return run(broker, [*options.split(), "--max-seconds", str(SECONDS_MAX)])


def add_rows(table: Table, mode: str, results: dict[str, Backlog]) -> None:
    base = results.get("RabbitMQ") if len(results) > 1 else None
    for broker, result in results.items():
        table.rows.append(
            (
                mode,
                broker,
                rate(result.publish_rate),
                f"{result.publish_cpu_us:.2f}",
                rate(result.deep_publish_rate),
                f"{result.rss_growth_mib:.0f}",
                rate(result.drain_rate),
                f"{result.drain_cpu_us:.2f}",
                times(result.publish_rate, base.publish_rate if base else None),
                times(result.drain_rate, base.drain_rate if base else None),
            )
        )
