"""How fast a cluster takes new durable queues: one client one by one, and ten and fifty at once.

Every declare-ok means that the queue is known on all three nodes. The client writes what it has
prepared and counts answers, so that it is not itself what is measured.
"""

from __future__ import annotations

import selectors
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

from pamqp.commands import Queue

from bench.brokers import Broker, NotInstalled
from bench.client import ANSWER_S_MAX, Client, encode
from bench.clusters import CLUSTERS, Cluster
from bench.report import Table, times

QUEUES: Final = 1_000
CONNECTIONS: Final = (1, 10, 50)
DECLARE_OK: Final = b"\x00\x32\x00\x0b"
COLUMNS: Final = ("connections", "cluster", "declares/s", "ms each", "CPU us", "rate")


class Declarer:
    """One connection with prepared declares, the next one sent when one is answered."""

    def __init__(self, broker: Broker) -> None:
        self.client = Client(broker.port)
        self._waiting: list[bytes] = []

    def prepare(self, names: Sequence[str]) -> None:
        declares = [Queue.Declare(queue=name, durable=True) for name in names]
        self._waiting = [encode(each) for each in reversed(declares)]

    def send_next(self) -> bool:
        """False if all are declared."""
        if not self._waiting:
            return False
        self.client.socket.sendall(self._waiting.pop())
        return True

    def receive(self) -> None:
        payload = self.client.frame()
        if not payload.startswith(DECLARE_OK):
            raise RuntimeError(f"a declare was answered with {payload!r}")


def declare_queues(broker: Broker, prefix: str, queues: int, connections: int) -> float:
    """How many a second."""
    with selectors.DefaultSelector() as selector:
        declarers = [Declarer(broker) for _ in range(connections)]
        for number, declarer in enumerate(declarers):
            share = range(queues // connections)
            declarer.prepare([f"{prefix}-{number}-{i}" for i in share])
            selector.register(declarer.client.socket, selectors.EVENT_READ, declarer)
        began = time.monotonic()
        busy = sum(declarer.send_next() for declarer in declarers)
        while busy:
            ready = selector.select(ANSWER_S_MAX)
            if not ready:
                raise RuntimeError(f"no answer in {ANSWER_S_MAX:g} s")
            for key, _ in ready:
                key.data.receive()
                busy -= not key.data.send_next()
        elapsed = time.monotonic() - began
        for declarer in declarers:
            declarer.client.close()
    return queues / elapsed


def declaring(starters: Sequence[str], repeats: int, say: Callable[[str], None]) -> Table:
    table = Table(f"Declaring {QUEUES} durable queues in a cluster of three", COLUMNS)
    found: dict[int, dict[str, tuple[float, float]]] = {count: {} for count in CONNECTIONS}
    for starter in starters:
        say(f"declare: {starter}")
        try:
            with CLUSTERS[starter]() as cluster:
                for count in CONNECTIONS:
                    found[count][cluster.name] = _measure(cluster, count, repeats)
        except (NotInstalled, RuntimeError, OSError) as failure:
            table.failures.append(f"declare, {starter}: {failure}")
    for count, results in found.items():
        base = results.get("RabbitMQ", (None, None))[0] if len(results) > 1 else None
        for name, (rate, cpu_us) in results.items():
            row = (f"{rate:.0f}", f"{1000 * count / rate:.2f}", f"{cpu_us:.0f}", times(rate, base))
            table.rows.append((str(count), name, *row))
    table.notes.append(
        f"Median of {repeats} runs, clients on the second node. A declare is answered when all "
        "nodes know the queue. CPU is that of all nodes, and of etcd, per declare."
    )
    return table


def _measure(cluster: Cluster, connections: int, repeats: int) -> tuple[float, float]:
    cpu_before = cluster.cpu_seconds()
    rates = [
        declare_queues(cluster.nodes[1], f"d{connections}-{repeat}", QUEUES, connections)
        for repeat in range(repeats)
    ]
    cpu_us = 1e6 * (cluster.cpu_seconds() - cpu_before) / (repeats * QUEUES)
    return statistics.median(rates), cpu_us
