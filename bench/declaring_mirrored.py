"""How fast a cluster takes new mirrored queues: one client one by one, and fifty at once.

Every queue has a copy on each of three nodes when its declare is answered. CPU is that of all nodes
and of etcd.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bench.brokers import NotInstalled
from bench.clusters import CLUSTERS, Cluster
from bench.declaring import declare_queues
from bench.report import Table, times

LOADS: Final = ((500, 1), (5_000, 50))
"""Queues, and the connections that declare them. RabbitMQ is spared the large one."""
QUEUES_MAX: Final = {"warren": 5_000, "rabbitmq": 500}
SETTLE_S: Final = 1.0
COLUMNS: Final = (
    "queues", "connections", "cluster", "seconds", "CPU ms each", "etcd txns each", "rate",
)  # fmt: skip


class Declared(NamedTuple):
    seconds: float
    cpu_ms: float
    transactions: float | None


def declaring_mirrored(starters: Sequence[str], say: Callable[[str], None]) -> Table:
    table = Table("Declaring mirrored queues in a cluster of three (ha-mode all)", COLUMNS)
    for queues, connections in LOADS:
        rates: dict[str, float] = {}
        for starter in starters:
            count = min(queues, QUEUES_MAX[starter])
            say(f"declare mirrored: {starter}, {count} by {connections}")
            try:
                with CLUSTERS[starter]() as cluster:
                    found = _measure(cluster, count, connections)
                    rates[cluster.name] = count / found.seconds
                    base = rates.get("RabbitMQ") if len(rates) > 1 else None
                    relative = times(rates[cluster.name], base)
                    _add_row(table, (count, connections, cluster.name), found, relative)
            except (NotInstalled, RuntimeError, OSError) as failure:
                table.failures.append(f"declare mirrored, {starter}: {failure}")
    table.notes.append(
        "One run each, in a cluster of its own, clients on the second node. An etcd transaction is "
        "one write to etcd's log; keep-alives are among them."
    )
    return table


def _add_row(table: Table, load: tuple[int, int, str], found: Declared, relative: str) -> None:
    each = "-" if found.transactions is None else f"{found.transactions:.2f}"
    figures = (f"{found.seconds:.2f}", f"{found.cpu_ms:.2f}", each, relative)
    table.rows.append((*map(str, load), *figures))


def _measure(cluster: Cluster, queues: int, connections: int) -> Declared:
    cluster.operator.set_policy("ha", "^mirrored", {"ha-mode": "all"})
    time.sleep(SETTLE_S)
    cpu_before, before = cluster.cpu_seconds(), cluster.etcd_transactions()
    rate = declare_queues(cluster.nodes[1], "mirrored", queues, connections)
    cpu_ms = 1000 * (cluster.cpu_seconds() - cpu_before) / queues
    after = cluster.etcd_transactions()
    each = None if after is None or before is None else (after - before) / queues
    return Declared(queues / rate, cpu_ms, each)
