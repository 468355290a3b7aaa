"""A queue of another node: clients on the second node of a cluster, the queue on the first.

Publishes go through the clients' node to the queue's and back to be confirmed, deliveries and their
acknowledgements likewise. For comparison also the same load with the clients on the queue's own
node. The clusters run one after the other, since a machine has room for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.brokers import NotInstalled
from bench.clusters import CLUSTERS, Cluster
from bench.load import LoadFailed, Measurement, losses, measure, median, run
from bench.report import Table, pair, rate, times
from bench.scenarios import ACKS, DURABLE

LOAD: Final = f"--size 1024 {DURABLE} {ACKS}"
PLACES: Final = (("another node's queue", 1), ("its own node's queue", 0))
COLUMNS: Final = (
    "1 KB persistent, confirms", "cluster", "msg/s", "CPU us/msg", "confirm p50 / p99 ms",
    "rate", "CPU",
)  # fmt: skip


def remote(
    starters: Sequence[str], repeats: int, seconds: float, say: Callable[[str], None]
) -> Table:
    table = Table("A queue of another node", COLUMNS)
    found: dict[str, dict[str, Measurement]] = {place: {} for place, _ in PLACES}
    for starter in starters:
        say(f"remote: starting the cluster of {starter}")
        try:
            with CLUSTERS[starter]() as cluster:
                for place, node in PLACES:
                    say(f"remote: {starter}, {place}")
                    load = _Load(cluster, node, seconds)
                    found[place][cluster.name] = median([load.run(i) for i in range(repeats)])
        except (NotInstalled, LoadFailed, RuntimeError) as failure:
            table.failures.append(f"remote, {starter}: {failure}")
    for place, results in found.items():
        _add_rows(table, place, results)
    table.notes.append(
        f"Three nodes, one after the other cluster; median of {repeats} runs of {seconds:g} s. One "
        "publisher with a window of 500 confirms, one consumer that acknowledges every 50. CPU is "
        "that of all nodes, and of etcd. The last two columns are relative to RabbitMQ."
    )
    return table


class _Load:
    """The queue's home is the first node, wherever the clients are."""

    def __init__(self, cluster: Cluster, node: int, seconds: float) -> None:
        self._home = cluster.nodes[0]
        self._node = cluster.nodes[node]
        self._pids = ",".join(map(str, cluster.pids))
        self._seconds = seconds

    def run(self, repeat: int) -> Measurement:
        queue = f"--queue remote{self._node.port}-{repeat} --durable"
        run(self._home, f"{queue} --declare --publish-only --count 1".split())
        run(self._home, f"{queue} --drain --expect 1".split())
        load = f"{queue} {LOAD} --delete-after --time {self._seconds} --broker-pid {self._pids}"
        return measure(self._node, load.split())


def _add_rows(table: Table, place: str, results: dict[str, Measurement]) -> None:
    base = results.get("RabbitMQ") if len(results) > 1 else None
    for name, result in results.items():
        table.rows.append(
            (
                place,
                name,
                rate(result.rate),
                f"{result.cpu_us:.2f}",
                pair(result.confirm_p50_ms, result.confirm_p99_ms),
                times(result.rate, base.rate if base else None),
                times(result.cpu_us, base.cpu_us if base else None),
            )
        )
        table.notes += losses(f"{place}, {name}", result)
