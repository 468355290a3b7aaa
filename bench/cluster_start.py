"""How long the nodes of a cluster with many queues take to start, all three at once.

The queues are durable and spread over the nodes. The nodes are stopped and started together; each
is ready when it answers an AMQP protocol header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.brokers import NotInstalled
from bench.clusters import NODES, warren_nodes
from bench.declaring import declare_queues
from bench.report import Table

QUEUES: Final = 3_000
CONNECTIONS: Final = 10
READY_SECONDS_MAX: Final = 10.0
COLUMNS: Final = ("start", *(f"node {number + 1}: ready after s" for number in range(NODES)))


def cluster_starts(repeats: int, say: Callable[[str], None]) -> Table:
    table = Table(f"Starting three nodes with {QUEUES} durable queues, all at once", COLUMNS)
    try:
        with warren_nodes() as (nodes, _):
            say(f"cluster-start: declaring {QUEUES} queues")
            for number, broker in enumerate(nodes.start(together=False)):
                declare_queues(broker, f"start{number}", QUEUES // NODES, CONNECTIONS)
            for repeat in range(repeats):
                say(f"cluster-start: run {repeat + 1} of {repeats}")
                nodes.stop()
                taken = [broker.start_seconds for broker in nodes.start(together=True)]
                table.rows.append((f"{repeat + 1}", *(f"{seconds:.2f}" for seconds in taken)))
                if max(taken) > READY_SECONDS_MAX:
                    table.failures.append(f"start {repeat + 1} took {max(taken):.1f} s")
    except (NotInstalled, RuntimeError) as failure:
        table.failures.append(f"cluster-start: {failure}")
    table.notes.append(
        f"A third of the queues on each node; each is to be ready in {READY_SECONDS_MAX:.0f} s."
    )
    return table
