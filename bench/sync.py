"""A queue with a backlog gets a mirror, while messages flow through it.

The queue is filled on the first node, unmirrored. Then messages are published at a steady rate and
others consumed at the same, and a policy asks for a mirror that is synchronised by itself. How
long that takes is one figure; the other is what publishers see of it: the time a confirm takes,
from when its message was due (a publisher that is held up is late for all that it could not send),
and the longest time without any. The clusters run one after the other.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pamqp.commands import Basic

from bench.brokers import Broker, NotInstalled
from bench.client import Client, encode
from bench.clusters import CLUSTERS, Cluster
from bench.load import LoadFailed, command_for, run, tool
from bench.operators import Definition
from bench.report import Table, rate

MESSAGES: Final = 500_000
MESSAGES_PER_S: Final = 2_000
QUEUE: Final = "synced"
NAMED: Final = f"--queue {QUEUE} --durable"
PUBLISH: Final = f"{NAMED} --persistent --size 1024 --publish-only --confirm 500"
POLICY: Final[Definition] = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}
CONFIRM_P99_MS_WANTED: Final = 50
FILL_S_MAX: Final = 120
SYNC_S_MAX: Final = 120.0
BEFORE_S: Final = 2.0
"""So long messages flow before there is a mirror."""
POLL_S: Final = 0.25
PREFETCH: Final = 500
TICK_S: Final = 0.01
DELIVER: Final = b"\x00\x3c\x00\x3c"
COLUMNS: Final = (
    "cluster", "filled at msg/s", "synchronised in s", "confirm p50 ms", "p99 ms", "max ms",
    "longest without a confirm, ms", "published/s", "consumed/s",
)  # fmt: skip


@dataclass(frozen=True)
class Synchronised:
    fill_rate: float
    seconds: float
    confirm_us: dict[str, float]
    longest_gap_ms: float
    publish_rate: float
    consume_rate: float


def synchronising(starters: Sequence[str], messages: int, say: Callable[[str], None]) -> Table:
    table = Table(f"A mirror for a queue of {messages:,} messages of 1 KB", COLUMNS)
    for starter in starters:
        say(f"sync: starting the cluster of {starter}")
        try:
            with CLUSTERS[starter]() as cluster:
                _add_row(table, cluster.name, _synchronise(cluster, messages, say))
        except (NotInstalled, LoadFailed, RuntimeError, OSError) as failure:
            table.failures.append(f"sync, {starter}: {failure}")
    table.notes.append(f"Wanted of Warren: a confirm p99 below {CONFIRM_P99_MS_WANTED} ms.")
    table.notes.append(
        f"Meanwhile {MESSAGES_PER_S} msg/s are to be published, with confirms, and as many to be "
        "consumed. A confirm's time counts from when its message was due."
    )
    return table


def _synchronise(cluster: Cluster, messages: int, say: Callable[[str], None]) -> Synchronised:
    home = cluster.nodes[0]
    say(f"sync: {cluster.name}, filling the queue")
    fill = f"{PUBLISH} --declare --count {messages} --max-seconds {FILL_S_MAX}"
    filled = run(home, fill.split())
    say(f"sync: {cluster.name}, synchronising")
    with _consuming(home) as consumer, _Publisher(home) as publisher:
        time.sleep(BEFORE_S)
        seconds = _get_mirror(cluster)
        consumed, elapsed = consumer.acknowledged, consumer.elapsed_s
        report = publisher.stop()
    return Synchronised(
        filled["publish_rate"],
        seconds,
        report["confirm_latency_us"],
        report["max_confirm_gap_ms"],
        report["publish_rate"],
        consumed / elapsed,
    )


def _get_mirror(cluster: Cluster) -> float:
    began = time.monotonic()
    cluster.operator.set_policy("ha", f"^{QUEUE}", POLICY)
    while not cluster.operator.count_synchronised(QUEUE):
        if time.monotonic() - began > SYNC_S_MAX:
            raise RuntimeError(f"not synchronised in {SYNC_S_MAX:g} s")
        time.sleep(POLL_S)
    return time.monotonic() - began


class _Publisher:
    """A load that runs until it is told to stop."""

    def __init__(self, broker: Broker) -> None:
        seconds = BEFORE_S + 2 * SYNC_S_MAX
        options = f"{PUBLISH} --rate {MESSAGES_PER_S} --time {seconds} --max-seconds {seconds}"
        command = command_for(broker, options.split(), tool())
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __enter__(self) -> _Publisher:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> dict[str, Any]:
        self._process.send_signal(signal.SIGINT)
        try:
            output, _ = self._process.communicate(timeout=SYNC_S_MAX)
        except subprocess.TimeoutExpired:
            raise LoadFailed(f"its last messages have no confirm after {SYNC_S_MAX:g} s") from None
        if self._process.returncode:
            raise LoadFailed(output.decode())
        report: dict[str, Any] = json.loads(output)
        return report


@contextmanager
def _consuming(broker: Broker) -> Iterator[_PacedConsumer]:
    consumer = _PacedConsumer(broker)
    thread = threading.Thread(target=consumer.consume)
    thread.start()
    try:
        yield consumer
    finally:
        consumer.is_stopping = True
        thread.join()


class _PacedConsumer:
    """Acknowledges at the rate of the publisher, so that the backlog stays as it is."""

    def __init__(self, broker: Broker) -> None:
        self.acknowledged = 0
        self.is_stopping = False
        self._delivered = 0
        self._began = time.monotonic()
        self._client = Client(broker.port)
        for method in (Basic.Qos(prefetch_count=PREFETCH), Basic.Consume(queue=QUEUE)):
            self._client.send(method)
            self._client.frame()
        self._client.socket.settimeout(TICK_S)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def consume(self) -> None:
        while not self.is_stopping:
            self._receive()
            due = min(self._delivered, int(self.elapsed_s * MESSAGES_PER_S))
            if due > self.acknowledged:
                self.acknowledged = due
                self._client.socket.sendall(encode(Basic.Ack(due, multiple=True)))
        self._client.close()

    def _receive(self) -> None:
        """What comes in one tick."""
        until = time.monotonic() + TICK_S
        try:
            while time.monotonic() < until:
                if self._client.frame().startswith(DELIVER):
                    self._delivered += 1
        except TimeoutError:
            return


def _add_row(table: Table, name: str, result: Synchronised) -> None:
    confirm = result.confirm_us
    table.rows.append(
        (
            name,
            rate(result.fill_rate),
            f"{result.seconds:.1f}",
            *(f"{confirm[part] / 1000:.1f}" for part in ("p50", "p99", "max")),
            f"{result.longest_gap_ms:.0f}",
            f"{result.publish_rate:.0f}",
            f"{result.consume_rate:.0f}",
        )
    )
