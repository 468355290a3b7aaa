"""What publishers see of the end of a master: how long no confirm comes, and what is lost.

A queue with a copy on each of three nodes is led by the first; a publisher at the second sends at a
given rate and waits for nothing. The first node is killed, or falls silent (SIGSTOP: as good as cut
off, as far as anybody can tell). The longest time between two confirms after that is what counts,
and whether all that was confirmed can be consumed from the third node.

RabbitMQ is killed only: it takes a node that is silent for gone after a minute.
"""

from __future__ import annotations

import os
import select
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pamqp.commands import Basic, Confirm, Queue

from bench.brokers import Broker, NotInstalled
from bench.client import Client, encode
from bench.clusters import CLUSTERS, Cluster
from bench.report import Table

QUEUE: Final = "mirrored-failover"
RATE: Final = 2_000
BODY_BYTES: Final = 1_024
BEFORE_S: Final = 3.0
AFTER_S: Final = 3.0
RESUME_S_MAX: Final = 60.0
COPIES_S_MAX: Final = 60.0
PIECE_BYTES: Final = 65_536
TICK_S: Final = 0.001
ENDINGS: Final = {"killed": signal.SIGKILL, "silent": signal.SIGSTOP}
ACK, NACK = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"
HEADER_FRAME: Final = b"\x02\x00\x01"
BODY_FRAME: Final = b"\x03\x00\x01"
PERSISTENT: Final = b"\x10\x00\x02"
COLUMNS: Final = ("its master is", "cluster", "no confirm for ms", "confirmed", "nacked", "lost")


@dataclass(frozen=True)
class Failover:
    silence_ms: float
    confirmed: int
    nacked: int
    lost: int


class SteadyPublisher:
    """Each body begins with its number, which is also its delivery tag."""

    def __init__(self, port: int) -> None:
        self.client = Client(port)
        self.client.send(Confirm.Select())
        self.client.frame()
        self.client.socket.setblocking(False)
        self.sent = 0
        self.confirmed: set[int] = set()
        self.confirmed_at: list[float] = []
        self.nacked: set[int] = set()
        self._lowest = 1
        self._output = bytearray()
        self._publish = encode(Basic.Publish(exchange="", routing_key=QUEUE))

    def publish(self) -> None:
        self.sent += 1
        body = self.sent.to_bytes(8, "big").ljust(BODY_BYTES, b"x")
        head = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + PERSISTENT
        self._output += self._publish + as_frame(HEADER_FRAME, head) + as_frame(BODY_FRAME, body)

    def exchange(self) -> None:
        """What can be sent and received within a moment."""
        socket = self.client.socket
        wanted = [socket] if self._output else []
        readable, writable, _ = select.select([socket], wanted, [], TICK_S)
        if writable:
            del self._output[: socket.send(self._output[:PIECE_BYTES])]
        if readable:
            self._take_answers()

    def _take_answers(self) -> None:
        try:
            while True:
                self._answered(self.client.frame())
        except BlockingIOError:
            return

    def _answered(self, payload: bytes) -> None:
        if payload[:4] not in (ACK, NACK):
            return
        tag, is_multiple = int.from_bytes(payload[4:12], "big"), payload[12] & 1
        tags = set(range(self._lowest if is_multiple else tag, tag + 1)) - self.nacked
        if is_multiple:
            self._lowest = tag + 1
        if payload[:4] == ACK:
            self.confirmed |= tags
            self.confirmed_at.append(time.monotonic())
        else:
            self.nacked |= tags - self.confirmed


def as_frame(head: bytes, payload: bytes) -> bytes:
    """Return a frame of channel 1; `head` begins with its type."""
    return head + len(payload).to_bytes(4, "big") + payload + b"\xce"


def failovers(starters: Sequence[str], repeats: int, say: Callable[[str], None]) -> Table:
    table = Table("Failover of mirrored queues", COLUMNS)
    for ending, number in ENDINGS.items():
        for starter in starters:
            if number is not signal.SIGKILL and starter == "rabbitmq":
                continue
            say(f"failover: {starter}, {ending}")
            try:
                _add_row(
                    table, ending, starter, [_measure(starter, number) for _ in range(repeats)]
                )
            except (NotInstalled, RuntimeError, OSError) as failure:
                table.failures.append(f"failover, {starter}, {ending}: {failure}")
    table.notes.append(
        f"Three nodes, ha-mode all, {RATE} persistent messages of 1 KB a second published at a "
        f"mirror's node; {repeats} runs, each with a cluster of its own: the median, and the "
        "range. All other columns are sums. Warren's nodes have sessions of 6 s."
    )
    return table


def _add_row(table: Table, ending: str, starter: str, runs: Sequence[Failover]) -> None:
    silences = [run.silence_ms for run in runs]
    name = {"warren": "Warren", "rabbitmq": "RabbitMQ"}[starter]
    silence = f"{statistics.median(silences):.0f} ({min(silences):.0f}-{max(silences):.0f})"
    sums = (sum(r.confirmed for r in runs), sum(r.nacked for r in runs), sum(r.lost for r in runs))
    table.rows.append((ending, name, silence, *map(str, sums)))


def _measure(starter: str, number: signal.Signals) -> Failover:
    with CLUSTERS[starter]() as cluster:
        _prepare(cluster)
        publisher = SteadyPublisher(cluster.nodes[1].port)
        began = time.monotonic()
        _run(publisher, began, began + BEFORE_S)
        os.kill(cluster.nodes[0].pid, number)
        hurt_at = time.monotonic()
        behind = publisher.sent
        while max(publisher.confirmed, default=0) <= behind:
            if time.monotonic() > hurt_at + RESUME_S_MAX:
                raise RuntimeError(f"no confirm within {RESUME_S_MAX:g} s")
            _run(publisher, began, time.monotonic() + TICK_S)
        _run(publisher, began, time.monotonic() + AFTER_S)
        times = [hurt_at, *(at for at in publisher.confirmed_at if at > hurt_at)]
        silence_ms = 1000 * max(b - a for a, b in pairwise(times))
        _finish(publisher)
        lost = publisher.confirmed - _consumed(cluster.nodes[2])
        if number is signal.SIGSTOP:
            os.kill(cluster.nodes[0].pid, signal.SIGCONT)
        return Failover(silence_ms, len(publisher.confirmed), len(publisher.nacked), len(lost))


def _prepare(cluster: Cluster) -> None:
    cluster.operator.set_policy("ha", "^mirrored", {"ha-mode": "all"})
    client = Client(cluster.nodes[0].port)
    client.send(Queue.Declare(queue=QUEUE, durable=True))
    client.frame()
    client.close()
    deadline = time.monotonic() + COPIES_S_MAX
    while cluster.operator.count_synchronised(QUEUE) < len(cluster.nodes) - 1:
        if time.monotonic() > deadline:
            raise RuntimeError("the queue has no mirrors")
        time.sleep(0.1)


def _run(publisher: SteadyPublisher, began: float, until: float) -> None:
    while (now := time.monotonic()) < until:
        while publisher.sent < (now - began) * RATE:
            publisher.publish()
        publisher.exchange()


def _finish(publisher: SteadyPublisher) -> None:
    deadline = time.monotonic() + RESUME_S_MAX
    while len(publisher.confirmed) + len(publisher.nacked) < publisher.sent:
        if time.monotonic() > deadline:
            raise RuntimeError("publishes are not answered")
        publisher.exchange()
    publisher.client.close()


def _consumed(node: Broker) -> set[int]:
    """The numbers of all messages that are there."""
    client = Client(node.port)
    client.send(Queue.Declare(queue=QUEUE, durable=True, passive=True))
    answer = client.frame()
    length = answer[4]
    count = int.from_bytes(answer[5 + length : 9 + length], "big")
    client.send(Basic.Consume(queue=QUEUE, no_ack=True))
    client.frame()
    found = set()
    for _ in range(count):
        client.frame()
        client.frame()
        found.add(int.from_bytes(client.frame()[:8], "big"))
    client.close()
    return found
