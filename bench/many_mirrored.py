"""Many mirrored queues with little to do each, beside RabbitMQ's: 500 and 2000 at ten a second.

RabbitMQ's engineers published 500 mirrored queues with ten messages a second each as the load that
their mirrored queues could not hold. Each queue is led by the first node and has a copy on each of
three; publishers are at the second node, and consumers at the third. So a message crosses a link to
its master, goes round the ring, and crosses another link to its consumer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.brokers import NotInstalled
from bench.clusters import CLUSTERS, Cluster
from bench.load import LoadFailed, Measurement, disturbances, losses, measure, median, run
from bench.report import Table, pair, rate
from bench.scenarios import DURABLE

MESSAGES_PER_S: Final = 10
"""Of each queue."""
QUEUES: Final = (500, 2000)
SECONDS_MAX: Final = 150
"""Of one run, with all that it has to wait for."""
ACKS: Final = "--prefetch 200 --ack-every 1"
COLUMNS: Final = (
    "queues, 10 msg/s each", "cluster", "msg/s held", "of", "CPU us/msg", "confirm p50 / p99 ms",
)  # fmt: skip


@dataclass(frozen=True)
class _Times:
    repeats: int
    seconds: float


def many_mirrored(
    starters: Sequence[str], repeats: int, seconds: float, say: Callable[[str], None]
) -> Table:
    table = Table("Many mirrored queues with little to do", COLUMNS)
    found: dict[tuple[int, str], Measurement] = {}
    for starter in starters:
        say(f"many-mirrored: starting the cluster of {starter}")
        try:
            with CLUSTERS[starter]() as cluster:
                cluster.operator.set_policy("ha", "^mirrored", {"ha-mode": "all"})
                for queues in QUEUES:
                    say(f"many-mirrored: {cluster.name}, {queues} queues")
                    times = _Times(repeats, seconds)
                    found[queues, cluster.name] = _measure(cluster, queues, times)
        except (NotInstalled, LoadFailed, RuntimeError, OSError) as failure:
            table.failures.append(f"many-mirrored, {starter}: {failure}")
    for (queues, name), result in sorted(found.items()):
        table.rows.append(_row(queues, name, result))
        table.notes += losses(f"{queues} queues, {name}", result)
    table.notes += disturbances(found.values())
    table.notes.append(
        f"Three nodes, one after the other cluster; median of {repeats} runs of {seconds:g} s, 1 "
        "KB persistent, confirms with a window of 500, each message acknowledged. CPU is that of "
        "all nodes, and of etcd."
    )
    return table


def _measure(cluster: Cluster, queues: int, times: _Times) -> Measurement:
    home, publish, consume = cluster.nodes
    named = f"--queue mirrored-{queues} --queues {queues} --durable --max-seconds {SECONDS_MAX}"
    run(home, f"{named} --declare --publish-only --count 1".split())
    run(home, f"{named} --drain --expect 1".split())
    pids = ",".join(map(str, cluster.pids))
    load = f"{named} --size 1024 {DURABLE} {ACKS} --rate {queues * MESSAGES_PER_S}"
    load += f" --consumer-port {consume.port} --time {times.seconds} --broker-pid {pids}"
    found = []
    for _ in range(times.repeats):
        os.sync()  # else confirms wait for the disk to take what the run before left
        found.append(measure(publish, load.split()))
    return median(found)


def _row(queues: int, name: str, result: Measurement) -> tuple[str, ...]:
    return (
        str(queues),
        name,
        rate(result.rate),
        rate(queues * MESSAGES_PER_S),
        f"{result.cpu_us:.0f}",
        pair(result.confirm_p50_ms, result.confirm_p99_ms),
    )
