"""What clients see when the master of very many mirrored queues is killed.

A node leads all queues, each of which has had a message from a publisher at a mirror's node. That
node is killed with SIGKILL, and at once the publisher sends another message to each queue. What
counts is the time from the kill until each of them is confirmed: finding out that the node is dead
is part of it.
"""

from __future__ import annotations

import os
import select
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pamqp.commands import Basic, Confirm, Queue

from bench.brokers import NotInstalled
from bench.client import Client, encode
from bench.clusters import CLUSTERS, Cluster
from bench.declaring import declare_queues
from bench.failover import ACK, BODY_FRAME, HEADER_FRAME, NACK, PERSISTENT, as_frame
from bench.report import Table

QUEUES: Final = {"warren": (500, 2_000), "rabbitmq": (500,)}
"""RabbitMQ takes minutes to declare more."""
CONNECTIONS: Final = 50
BODY: Final = b"x" * 1_024
PREFIX: Final = "mirrored"
CONFIRM_S_MAX: Final = 120.0
SETTLE_S: Final = 2.0
PIECE_BYTES: Final = 65_536
TICK_S: Final = 0.05
COLUMNS: Final = (
    "queues", "cluster", "first ms", "p50 ms", "worst ms", "lost", "CPU s", "etcd txns",
)  # fmt: skip


class Failover(NamedTuple):
    times_s: list[float]
    """Time from the kill to the confirm of each queue's message, ascending."""
    lost: int
    cpu_s: float
    transactions: int | None


class Publisher:
    """Publishes one message to each queue and says when each was confirmed."""

    def __init__(self, port: int, queues: Sequence[str]) -> None:
        self._client = Client(port)
        self._client.send(Confirm.Select())
        self._client.frame()
        self._sent = 0
        self._queues = queues

    def publish_to_all(self) -> list[float]:
        """Return the time of each confirm; raises RuntimeError for a nack, or without one."""
        first, lowest = self._sent + 1, self._sent + 1
        self._sent += len(self._queues)
        output = b"".join(map(_message, self._queues))
        confirmed: dict[int, float] = {}
        deadline = time.monotonic() + CONFIRM_S_MAX
        socket = self._client.socket
        socket.setblocking(False)
        while len(confirmed) < len(self._queues):
            if time.monotonic() > deadline:
                missing = len(self._queues) - len(confirmed)
                raise RuntimeError(f"{missing} messages are not confirmed")
            readable, writable, _ = select.select([socket], [socket] if output else [], [], TICK_S)
            if writable:
                output = output[socket.send(output[:PIECE_BYTES]) :]
            for tag, is_multiple in self._answers() if readable else ():
                begin = lowest if is_multiple else tag
                now = time.monotonic()
                for each in range(max(begin, first), tag + 1):
                    confirmed.setdefault(each, now)
                lowest = tag + 1 if is_multiple else lowest
        return sorted(confirmed.values())

    def _answers(self) -> list[tuple[int, bool]]:
        found = []
        try:
            while True:
                payload = self._client.frame()
                if payload[:4] == NACK:
                    raise RuntimeError("a message was refused")
                if payload[:4] == ACK:
                    found.append((int.from_bytes(payload[4:12], "big"), bool(payload[12] & 1)))
        except BlockingIOError:
            return found

    def close(self) -> None:
        self._client.close()


def _message(queue: str) -> bytes:
    head = b"\x00\x3c\x00\x00" + len(BODY).to_bytes(8, "big") + PERSISTENT
    publish = encode(Basic.Publish(exchange="", routing_key=queue))
    return publish + as_frame(HEADER_FRAME, head) + as_frame(BODY_FRAME, BODY)


def failovers_of_many(starters: Sequence[str], say: Callable[[str], None]) -> Table:
    table = Table("Failover of very many mirrored queues (kill -9 of their master)", COLUMNS)
    for starter in starters:
        for queues in QUEUES[starter]:
            say(f"failover: {starter}, {queues} queues")
            try:
                with CLUSTERS[starter]() as cluster:
                    _add_row(table, cluster.name, queues, _measure(cluster, queues))
            except (NotInstalled, RuntimeError, OSError) as failure:
                table.failures.append(f"failover, {starter}, {queues} queues: {failure}")
    table.notes.append(
        "Three nodes, ha-mode all, one run each. A persistent message of 1 KB to each queue right "
        "after the kill, at a mirror's node; times from the kill to the confirms. CPU of the nodes "
        "that live on and etcd."
    )
    return table


def _add_row(table: Table, name: str, queues: int, found: Failover) -> None:
    times_ms = [1000 * each for each in found.times_s]
    shown = (times_ms[0], statistics.median(times_ms), times_ms[-1])
    transactions = "-" if found.transactions is None else str(found.transactions)
    figures = (*(f"{each:.0f}" for each in shown), str(found.lost), f"{found.cpu_s:.2f}")
    table.rows.append((str(queues), name, *figures, transactions))


def _measure(cluster: Cluster, queues: int) -> Failover:
    cluster.operator.set_policy("ha", f"^{PREFIX}", {"ha-mode": "all"})
    time.sleep(SETTLE_S)
    declare_queues(cluster.nodes[0], PREFIX, queues, CONNECTIONS)
    share = range(queues // CONNECTIONS)
    names = [f"{PREFIX}-{number}-{i}" for number in range(CONNECTIONS) for i in share]
    publisher = Publisher(cluster.nodes[1].port, names)
    publisher.publish_to_all()
    time.sleep(SETTLE_S)
    left = replace(cluster, nodes=cluster.nodes[1:])
    cpu_before, before = left.cpu_seconds(), cluster.etcd_transactions()
    os.kill(cluster.nodes[0].pid, signal.SIGKILL)
    killed_at = time.monotonic()
    times_s = [at - killed_at for at in publisher.publish_to_all()]
    after = cluster.etcd_transactions()
    cpu_s = left.cpu_seconds() - cpu_before
    publisher.close()
    lost = sum(max(0, 2 - count) for count in _lengths(cluster.nodes[2].port, names))
    transactions = None if after is None or before is None else after - before
    return Failover(times_s, lost, cpu_s, transactions)


def _lengths(port: int, queues: Sequence[str]) -> list[int]:
    client = Client(port)
    counts = []
    for queue in queues:
        client.send(Queue.Declare(queue=queue, durable=True, passive=True))
        answer = client.frame()
        length = answer[4]
        counts.append(int.from_bytes(answer[5 + length : 9 + length], "big"))
    client.close()
    return counts
