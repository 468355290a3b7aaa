"""Fairness: how long a client waits for confirms while another one does something large."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

import pika  # type: ignore[import-untyped]

from bench.brokers import STARTERS, Broker, NotInstalled
from bench.report import Table

MESSAGES: Final = 400_000
BINDINGS: Final = 50_000
QUEUES: Final = 20_000
QUIET_S: Final = 3.0
AFTER_S: Final = 1.0
WAIT_S: Final = 120.0
COLUMNS: Final = ("broker", "meanwhile", "it took s", "confirm p50 ms", "p99 ms", "worst ms")


def fairness(names: Sequence[str], share: float, say: Callable[[str], None]) -> Table:
    table = Table("Fairness", COLUMNS)
    for name in names:
        try:
            with STARTERS[name]() as broker:
                table.rows += _measured(broker, share, say)
        except NotInstalled as missing:
            table.notes.append(f"Not installed: {missing}.")
    table.notes.append(
        "A client publishes a persistent message every 4 ms and waits for its confirm. Another one "
        f"does each of these: {share * MESSAGES:,.0f} messages, {share * BINDINGS:,.0f} bindings, "
        f"{share * QUEUES:,.0f} queues."
    )
    return table


def _connect(broker: Broker) -> Any:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=0)
    return pika.BlockingConnection(parameters)


class _Probe:
    """Confirms of a client of its own, timed, within `with`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._times: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._began = 0.0
        self._took = 0.0

    def __enter__(self) -> _Probe:
        self._thread.start()
        time.sleep(AFTER_S)
        self._times.clear()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._took = time.perf_counter() - self._began
        time.sleep(AFTER_S)
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        connection = _connect(self._broker)
        channel = connection.channel()
        channel.queue_declare("probe", durable=True, arguments={"x-max-length": 10})
        channel.confirm_delivery()
        durable = pika.BasicProperties(delivery_mode=2)
        while not self._is_over.is_set():
            began = time.perf_counter()
            channel.basic_publish("", "probe", b"x", durable)
            self._times.append(time.perf_counter() - began)
            time.sleep(0.004)
        connection.close()

    def row(self, broker: Broker, title: str) -> Sequence[str]:
        times = sorted(self._times)
        figures = (times[len(times) // 2], times[int(len(times) * 0.99)], times[-1])
        shown = (f"{seconds * 1000:.1f}" for seconds in figures)
        return (broker.name, title, f"{self._took:.1f}", *shown)


def _measured(broker: Broker, share: float, say: Callable[[str], None]) -> list[Sequence[str]]:
    rows = []
    connection = _connect(broker)
    channel = connection.channel()
    messages, bindings = int(share * MESSAGES), int(share * BINDINGS)
    steps: tuple[tuple[str, Callable[[], object], Callable[[], object]], ...] = (
        ("nothing else", lambda: None, lambda: time.sleep(QUIET_S)),
        ("nack of all, requeued", lambda: _hold(channel, messages), lambda: _nack(channel)),
        ("purge", lambda: None, lambda: channel.queue_purge("large")),
        ("deletion of a queue", lambda: _fill(channel, messages), lambda: _delete(channel)),
        (
            "deletion of an exchange",
            lambda: _bind(channel, bindings, 1),
            lambda: channel.exchange_delete("large"),
        ),
        (
            "a publish to many queues",
            lambda: _bind(channel, int(share * QUEUES), int(share * QUEUES)),
            lambda: channel.basic_publish("large", "", b"x", pika.BasicProperties(delivery_mode=2)),
        ),
    )
    for title, prepare, act in steps:
        say(f"fairness: {broker.name}: {title}")
        prepare()
        with _Probe(broker) as probe:
            act()
        rows.append(probe.row(broker, title))
    connection.close()
    return rows


def _fill(channel: Any, count: int) -> None:
    channel.queue_declare("large")
    for _ in range(count):
        channel.basic_publish("", "large", b"x" * 20)
    _await_ready(channel, count)


def _await_ready(channel: Any, count: int) -> None:
    ends = time.monotonic() + WAIT_S
    while channel.queue_declare("large", passive=True).method.message_count < count:
        if time.monotonic() > ends:
            raise RuntimeError("the messages did not come")
        time.sleep(0.1)


def _hold(channel: Any, count: int) -> None:
    _fill(channel, count)
    got = 0
    for method, _, _ in channel.consume("large", inactivity_timeout=WAIT_S):
        got += method is not None
        if got == count or method is None:
            break


def _nack(channel: Any) -> None:
    channel.basic_nack(0, multiple=True, requeue=True)
    channel.cancel()
    channel.basic_qos()  # an answer that comes after


def _delete(channel: Any) -> None:
    channel.queue_delete("large")


def _bind(channel: Any, bindings: int, queues: int) -> None:
    """Make an exchange with so many bindings to so many queues."""
    channel.exchange_declare("large", "fanout" if queues > 1 else "direct", durable=True)
    for number in range(queues):
        channel.queue_declare(f"bound-{number}", durable=True)
    for number in range(bindings):
        channel.queue_bind(f"bound-{number % queues}", "large", str(number))
