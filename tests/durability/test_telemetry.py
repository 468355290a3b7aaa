"""What the broker tells of itself when it is given more than it can take: who is in flow says why.

Each test overloads one stage and hears of it as anybody would: by a queue bound to
`amq.rabbitmq.event`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import eventually
from acceptance.raw_client import RawClient, encode_properties
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.disk_faults import DiskFaults
from durability.mail import PERSISTENT_BLOCK, client_of, declare, publish_frames
from live_broker import connection_parameters

Faulty = tuple[BrokerProcess, DiskFaults]
KINDS = ("connection", "channel", "queue")
WITHIN_S = 90.0
MIB = 1_048_576
SYNC_MS = 1_500
SMALL, LARGE = 1_000, 20_000
BINDINGS = 10


class Heard:
    """The states that were told, and all that was told on the way."""

    def __init__(self, channel: BlockingChannel, queue: str) -> None:
        self._channel = channel
        self.states: dict[tuple[str, str], str] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        channel.basic_consume(queue, self._hear, auto_ack=True)

    def listen(self) -> None:
        self._channel.connection.process_data_events(0)

    def _hear(self, _channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        headers = properties.headers
        self.events.append((method.routing_key, headers))
        _, kind, what = method.routing_key.split(".")
        if what == "state":
            self.states[kind, headers["name"]] = headers["state"]

    def in_flow(self) -> tuple[bool, bool, bool]:
        """Whether any connection, channel, queue is."""
        self.listen()
        connection, channel, queue = (
            any(state == "flow" for (each, _), state in self.states.items() if each == kind)
            for kind in KINDS
        )
        return connection, channel, queue

    def of(self, key: str, **about: Any) -> list[dict[str, Any]]:
        return [told for name, told in self.events if name == key and about.items() <= told.items()]


@contextmanager
def hearing(broker: BrokerProcess, key: str = "warren.*.state") -> Iterator[Heard]:
    connection = pika.BlockingConnection(connection_parameters(broker.address))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.rabbitmq.event", key)
    yield Heard(channel, queue)
    connection.close()


@contextmanager
def overloading(client: RawClient, frames: bytes) -> Iterator[None]:
    """Sends these again and again."""
    is_enough = threading.Event()
    client.socket.settimeout(WITHIN_S)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)

    def send() -> None:
        while not is_enough.is_set():
            client.send_bytes(frames)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_enough.set()
        sender.join()


@pytest.mark.warren_only
@pytest.mark.parametrize(
    ("body_bytes", "queue_is_in_flow"),
    [(SMALL, False), (LARGE, True)],
    ids=["small messages", "large messages"],
)
def test_a_slow_disk_is_told_of_by_who_is_in_flow(
    faulty: Faulty, body_bytes: int, queue_is_in_flow: bool
) -> None:
    broker, faults = faulty
    broker.start()
    frames = publish_frames(bytes(body_bytes), PERSISTENT_BLOCK, routing_key="q")
    with client_of(broker) as client, hearing(broker) as heard:
        declare(client, "q")
        faults.slow_sync(SYNC_MS)
        with overloading(client, frames * (4 * MIB // body_bytes)):
            expected = (True, True, queue_is_in_flow)
            eventually(lambda: heard.in_flow() == expected, WITHIN_S)
            faults.rule()
        eventually(lambda: heard.in_flow() == (False, False, False), WITHIN_S)
    ended = heard.of("warren.connection.state", state_before="flow", state="running")
    assert ended
    assert all(told["duration_ms"] > 0 for told in ended)
    assert bool(heard.of("warren.queue.state", name="q", state="flow")) is queue_is_in_flow


@pytest.mark.warren_only
def test_routing_that_takes_all_the_time_is_told_of_by_connections_in_flow_alone(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker("warren.telemetry_interval = 500")
    broker.start()
    properties = encode_properties(headers={f"h{number}": "v" for number in range(5)})
    frames = publish_frames(bytes(500), properties, exchange="slow", routing_key="")
    with client_of(broker) as client, hearing(broker, "warren.#") as heard:
        declare(client, "q")
        client.call(1, "exchange.declare", exchange="slow", type="headers")
        for number in range(BINDINGS):
            wanted = {"x-match": "all", "h1": "v", "h2": "v", "h3": "v", "other": str(number)}
            client.call(1, "queue.bind", queue="q", exchange="slow", arguments=wanted)
        with overloading(client, frames * 400):
            eventually(lambda: heard.in_flow() == (True, False, False), WITHIN_S)
            eventually(lambda: _is_busy(heard), WITHIN_S)
        eventually(lambda: heard.in_flow() == (False, False, False), WITHIN_S)
    assert not heard.of("warren.channel.state")
    assert not heard.of("warren.queue.state")


def _is_busy(heard: Heard) -> bool:
    heard.listen()
    told = heard.of("warren.node.stats")
    return any(each["busy_percent"] >= 80 and each["connections_in_flow"] == 1 for each in told)
