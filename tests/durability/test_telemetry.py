"""What the broker tells of itself when it is given more than it can take: who is in flow says why.

Each test overloads one stage and hears of it as anybody would: by a queue bound to
`amq.rabbitmq.event`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import eventually
from acceptance.control import Control
from acceptance.raw_client import encode_properties
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.disk_faults import DiskFaults
from durability.mail import PERSISTENT_BLOCK, client_of, declare, publish_frames
from live_broker import connection_parameters
from overloading import overloading

Faulty = tuple[BrokerProcess, DiskFaults]
KINDS = ("connection", "channel", "queue")
WITHIN_S = 180.0
MIB = 1_048_576
SYNC_MS = 5_000
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
        if method.routing_key.endswith(".state"):
            _, kind, _ = method.routing_key.split(".")
            self.states[kind, headers["name"]] = headers["state"]

    def in_flow(self) -> tuple[bool, bool, bool]:
        """Whether any connection, channel, queue is."""
        self.listen()
        connection, channel, queue = (
            any(state == "flow" for (each, _), state in self.states.items() if each == kind)
            for kind in KINDS
        )
        return connection, channel, queue

    def was_in_flow(self, kind: str) -> bool:
        self.listen()
        return bool(self.of(f"warren.{kind}.state", state="flow"))

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
            for kind in KINDS if queue_is_in_flow else KINDS[:-1]:
                eventually(partial(heard.was_in_flow, kind), WITHIN_S)
            faults.rule()
        eventually(lambda: heard.in_flow() == (False, False, False), WITHIN_S)
    ended = heard.of("warren.connection.state", state_before="flow", state="running")
    assert ended
    assert all(told["duration_ms"] > 0 for told in ended)
    assert bool(heard.of("warren.queue.state", state="flow")) is queue_is_in_flow


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
            eventually(lambda: "the channels: CPU" in shown_to_be_in_flow(broker), WITHIN_S)
        eventually(lambda: heard.in_flow() == (False, False, False), WITHIN_S)
    assert not heard.of("warren.channel.state")
    assert not heard.of("warren.queue.state")


def shown_to_be_in_flow(broker: BrokerProcess) -> str:
    """The bottlenecks of connections in flow, by the management API."""
    connections = broker.ask("/api/connections")
    return " ".join(shown["bottleneck"] for shown in connections if shown["state"] == "flow")


IDENTITY = {
    "queue": {"vhost", "name", "type"},
    "connection": {"name", "pid", "vhost", "user", "user_provided_name"},
    "channel": {"name", "pid", "connection", "number", "vhost", "user"},
    "node": set[str](),
}
FIGURES = {
    "queue": {
        "state", "messages", "messages_ready", "messages_unacknowledged", "message_bytes",
        "messages_paged_out", "consumers", "head_message_age_ms",
    },
    "connection": {"state", "channels", "send_pend"},
    "channel": {
        "state", "consumer_count", "prefetch_count", "messages_unacknowledged",
        "messages_unconfirmed",
    },
    "node": {
        "interval_ms", "busy_percent", "loop_cpu_percent", "cpu_percent", "steal_percent", "load",
        "processors", "memory_used", "memory_limit", "disk_free", "disk_free_limit", "alarms",
        "connections", "channels", "queues", "consumers", "messages", "messages_ready",
        "messages_unacknowledged", "stream_records", "head_message_age_ms", "connections_in_flow",
        "connections_blocked", "channels_in_flow", "queues_in_flow", "events_dropped", "left_out",
    },
}  # fmt: skip
QUEUE_COUNTS = {"publish", "deliver_get", "redeliver", "ack"}
COUNTS = QUEUE_COUNTS | {"confirm", "return_unroutable", "drop_unroutable"}
COUNTED = {
    "queue": QUEUE_COUNTS,
    "connection": {"recv_oct", "send_oct"},
    "channel": COUNTS,
    "node": COUNTS | {"disk_reads", "disk_writes"},
}


@pytest.mark.warren_only
def test_figures_come_every_interval_with_the_headers_that_are_documented(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker("warren.telemetry_interval = 200")
    broker.start()
    with client_of(broker) as client, hearing(broker, "warren.*.stats") as heard:
        declare(client, "q")
        stream = {"x-queue-type": "stream"}
        client.call(1, "queue.declare", queue="s", durable=True, arguments=stream)
        client.send_bytes(publish_frames(b"four", b"\0\0", routing_key="q") * 3)
        client.send_bytes(publish_frames(b"record", b"\0\0", routing_key="s") * 2)

        def is_told(kind: str, **about: Any) -> bool:
            heard.listen()
            return bool(heard.of(f"warren.{kind}.stats", **about))

        full = {"messages": 3, "messages_ready": 3, "message_bytes": 12, "publish": 3}
        eventually(lambda: is_told("queue", name="q", **full), WITHIN_S)
        eventually(lambda: is_told("channel", publish=5, number=1), WITHIN_S)
        eventually(lambda: is_told("connection", channels=1), WITHIN_S)
        counted = {"publish": 5, "messages": 5, "stream_records": 2, "connections": 2}
        eventually(lambda: is_told("node", **counted), WITHIN_S)
    page = (Path(__file__).parents[2] / "docs" / "TELEMETRY.md").read_text()
    for kind, identity in IDENTITY.items():
        names = identity | FIGURES[kind] | COUNTED[kind]
        rates = {f"{name}_rate" for name in COUNTED[kind]}
        told = heard.of(f"warren.{kind}.stats")[-1]
        assert told.keys() == {"node", "timestamp_in_ms"} | names | rates
        assert not {name for name in names if f"`{name}`" not in page}


@pytest.mark.warren_only
def test_who_is_blocked_by_an_alarm_is_told_and_for_how_long(make_broker: MakeBroker) -> None:
    broker = make_broker("warren.telemetry_interval = 200")
    broker.start()
    control = Control(f"http://127.0.0.1:{broker.http_port}")
    with client_of(broker) as client, hearing(broker, "#") as heard:
        declare(client, "q")
        control.ok("set_vm_memory_high_watermark 0")
        client.send_bytes(publish_frames(b"no room", b"\0\0", routing_key="q"))

        def is_told(key: str, **about: Any) -> bool:
            heard.listen()
            return bool(heard.of(key, **about))

        eventually(lambda: is_told("alarm.set", source="memory"), WITHIN_S)
        eventually(lambda: is_told("warren.connection.state", state="blocked"), WITHIN_S)
        eventually(
            lambda: is_told("warren.node.stats", alarms="memory", connections_blocked=1), WITHIN_S
        )
        control.ok("set_vm_memory_high_watermark 0.4")
        over = {"state_before": "blocked", "state": "running"}
        eventually(lambda: is_told("warren.connection.state", **over), WITHIN_S)
        eventually(lambda: is_told("alarm.cleared", source="memory"), WITHIN_S)
        assert heard.of("warren.connection.state", **over)[0]["duration_ms"] > 0


def _is_busy(heard: Heard) -> bool:
    heard.listen()
    told = heard.of("warren.node.stats")
    return any(each["busy_percent"] >= 80 and each["connections_in_flow"] == 1 for each in told)
