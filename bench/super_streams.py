"""A super stream whose partitions are led by one, two or three nodes of three: rate and CPU.

A publisher at each node publishes with confirms to the one exchange, under a thousand keys, so in
all three cases two thirds of the publishes cross a link. On a machine with fewer cores than the
nodes and clients want, the rate says little: nodes share what there is. What a message costs the
busiest node does say how far a cluster of machines gets, since that node is the first to be full.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from bench.brokers import Broker, NotInstalled
from bench.clusters import Cluster, cpu_seconds_of, warren_cluster
from bench.load import LoadFailed, command_for, tool
from bench.operators import WarrenOperator
from bench.report import Table, rate

PARTITIONS: Final = 6
KEYS: Final = 1_000
SIZES: Final = (100, 1_024)
SECONDS_MAX: Final = 120
KNOWN_S_MAX: Final = 30.0
"""Time for all nodes to have heard of a super stream."""
COLUMNS: Final = (
    "leaders on", "bytes", "msg/s", "CPU us/msg, all nodes", "busiest node", "its msg/s at 1 core",
)  # fmt: skip


@dataclass(frozen=True)
class _Run:
    rate: float
    cpu_us: float
    busiest_us: float


def super_streams(repeats: int, seconds: float, say: Callable[[str], None]) -> Table:
    table = Table("Super streams, by number of nodes that lead partitions", COLUMNS)
    say("super-streams: starting the cluster")
    try:
        with warren_cluster() as cluster:
            for size in SIZES:
                for leaders in (1, 2, 3):
                    say(f"super-streams: {size} bytes, leaders on {leaders}")
                    runs = [_run(cluster, leaders, size, n, seconds) for n in range(repeats)]
                    table.rows.append(_row(leaders, size, runs))
    except (NotInstalled, LoadFailed, OSError, RuntimeError) as failure:
        table.failures.append(f"super-streams: {failure}")
    table.notes.append(
        f"Three nodes on one machine; {PARTITIONS} partitions without mirrors, {KEYS} keys; a "
        "publisher at each node with a window of 500 confirms; median of "
        f"{repeats} runs of {seconds:g} s. The nodes, etcd and the publishers share the machine's "
        "cores, so the rate is the machine's; the last column is what the busiest node could take "
        "with a core of its own."
    )
    return table


def _row(leaders: int, size: int, runs: Sequence[_Run]) -> tuple[str, ...]:
    busiest_us = median(run.busiest_us for run in runs)
    return (
        f"{leaders} node{'s' if leaders > 1 else ''}",
        str(size),
        rate(median(run.rate for run in runs)),
        f"{median(run.cpu_us for run in runs):.1f}",
        f"{busiest_us:.1f}",
        rate(1e6 / busiest_us),
    )


def _run(cluster: Cluster, leaders: int, size: int, number: int, seconds: float) -> _Run:
    name = f"super-{leaders}-{size}-{number}"
    _declare(cluster, leaders, name)
    before = [cpu_seconds_of(node.pid) for node in cluster.nodes]
    helpers_before = sum(map(cpu_seconds_of, cluster.helpers))
    reports = _publish(cluster.nodes, name, size, seconds)
    after = [cpu_seconds_of(node.pid) for node in cluster.nodes]
    helpers_s = sum(map(cpu_seconds_of, cluster.helpers)) - helpers_before
    WarrenOperator(cluster.nodes[0].http_port).ask("DELETE", _path(name))
    count = sum(report["confirmed"] for report in reports)
    if not count or any(report["returned"] or report["nacked"] for report in reports):
        raise LoadFailed(f"{name}: not everything was confirmed: {reports}")
    spent = [end - start for start, end in zip(before, after, strict=True)]
    return _Run(
        rate=sum(report["confirmed"] / report["publish_seconds"] for report in reports),
        cpu_us=(sum(spent) + helpers_s) / count * 1e6,
        busiest_us=max(spent) / count * 1e6,
    )


def _declare(cluster: Cluster, leaders: int, name: str) -> None:
    """Partitions are led where they are declared; so each leading node adds its share."""
    arguments = {"x-queue-leader-locator": "client-local"}
    for number in range(leaders):
        body = {"partitions": PARTITIONS * (number + 1) // leaders, "arguments": arguments}
        operator = WarrenOperator(cluster.nodes[number].http_port)
        operator.ask("PUT", _path(name), json.dumps(body).encode())
    deadline = time.monotonic() + KNOWN_S_MAX
    while not all(_is_known(node, name, leaders) for node in cluster.nodes):
        if time.monotonic() > deadline:
            raise LoadFailed(f"{name}: not led by {leaders} nodes within {KNOWN_S_MAX:g} s")
        time.sleep(0.1)


def _is_known(node: Broker, name: str, leaders: int) -> bool:
    shown = json.loads(WarrenOperator(node.http_port).ask("GET", _path(name)))
    found = {partition["node"] for partition in shown["partitions"]}
    return len(shown["partitions"]) == PARTITIONS and len(found) == leaders


def _path(name: str) -> str:
    return f"warren/super-streams/%2F/{name}"


def _publish(nodes: Sequence[Broker], name: str, size: int, seconds: float) -> list[dict[str, Any]]:
    load = (
        f"--exchange {name} --routing-key customer-%d --rk-range {KEYS} --publish-only --persistent"
        f" --mandatory --confirm 500 --size {size} --time {seconds} --max-seconds {SECONDS_MAX}"
    ).split()
    running = [
        subprocess.Popen(
            command_for(node, load, tool()), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for node in nodes
    ]
    reports = []
    for process in running:
        output, errors = process.communicate(timeout=2 * SECONDS_MAX)
        if process.returncode:
            raise LoadFailed((output + errors).decode(errors="replace").strip())
        reports.append(json.loads(output))
    return reports
