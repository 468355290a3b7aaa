"""What a broker costs before it does anything: start, memory, and memory per idle thing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.brokers import STARTERS, NotInstalled
from bench.load import run
from bench.report import Table

CONNECTIONS: Final = 2000
QUEUES: Final = 2000
SETTLE_SECONDS: Final = 2.0
COLUMNS: Final = (
    "broker", "start to ready s", "RSS idle MiB", "KiB per connection", "with a channel",
    "KiB per queue", "connections opened /s",
)  # fmt: skip


def idle(names: Sequence[str], say: Callable[[str], None]) -> Table:
    table = Table("Idle cost", COLUMNS)
    for name in names:
        say(f"idle: {name}")
        try:
            table.rows.append(measure_idle(name))
        except NotInstalled as missing:
            table.notes.append(f"Not installed: {missing}.")
    table.notes.append(
        f"Fresh broker each; memory per thing is the growth of RSS by {CONNECTIONS} connections, "
        f"as many with a channel each, and {QUEUES} empty queues."
    )
    return table


def measure_idle(name: str) -> Sequence[str]:
    with STARTERS[name]() as broker:
        time.sleep(SETTLE_SECONDS)
        rss_kb = broker.rss_kb()
        load = ["--idle-conns", str(CONNECTIONS), "--time", "3"]
        bare = run(broker, load)
        time.sleep(SETTLE_SECONDS)
    with STARTERS[name]() as broker:
        time.sleep(SETTLE_SECONDS)
        channels = run(broker, [*load, "--idle-channel"])
    with STARTERS[name]() as broker:
        time.sleep(SETTLE_SECONDS)
        before_kb = broker.rss_kb()
        run(broker, ["--declare", "--queues", str(QUEUES), "--publish-only", "--count", "1"])
        time.sleep(SETTLE_SECONDS)
        queue_kb = (broker.rss_kb() - before_kb) / QUEUES
        return (
            broker.name,
            f"{broker.start_seconds:.2f}",
            f"{rss_kb / 1024:.1f}",
            f"{bare['rss_per_conn_kb']:.1f}",
            f"{channels['rss_per_conn_kb']:.1f}",
            f"{queue_kb:.1f}",
            f"{bare['open_rate']:.0f}",
        )
