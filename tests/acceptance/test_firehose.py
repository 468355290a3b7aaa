"""The firehose: a copy of whatever is published and delivered, while tracing is on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import Message, consume, drain, get, ready_count, settle, take
from acceptance.conftest import Realm
from live_broker import connection_parameters

PROPERTIES = pika.BasicProperties(
    content_type="text/plain", headers={"h": 1}, delivery_mode=2, priority=3, message_id="m",
    timestamp=5, expiration="60000", app_id="app",
)  # fmt: skip


@dataclass
class Traced:
    realm: Realm
    user: str
    channel: BlockingChannel

    def copies(self, count: int) -> list[Message]:
        return [take(self.channel, "tap") for _ in range(count)]

    def turn(self, is_on: bool) -> None:
        self.realm.admin.trace(self.realm.vhost, is_on)


@pytest.fixture
def traced(realm: Realm) -> Iterator[Traced]:
    """Tracing is on and goes to the queue `tap`; the channel is the second of its connection."""
    user = realm.add_user("administrator")
    credentials = pika.PlainCredentials(user, f"secret of {user}")
    parameters = connection_parameters(
        realm.admin.address, virtual_host=realm.vhost, credentials=credentials
    )
    connection = pika.BlockingConnection(parameters)
    connection.channel()
    traced = Traced(realm, user, connection.channel())
    traced.channel.queue_declare("tap")
    traced.channel.queue_bind("tap", "amq.rabbitmq.trace", "#")
    traced.turn(True)
    yield traced
    connection.close()


def declare_two(channel: BlockingChannel) -> None:
    for name in ("q1", "q2"):
        channel.queue_declare(name)
        channel.queue_bind(name, "amq.fanout")


def test_a_publish_is_copied_with_all_that_is_known_of_it(traced: Traced) -> None:
    declare_two(traced.channel)
    traced.channel.basic_publish("amq.fanout", "some.key", b"body", PROPERTIES)
    (copy,) = traced.copies(1)
    assert copy.method.routing_key == "publish.amq.fanout"
    assert copy.body == b"body"
    headers: dict[str, Any] = copy.properties.headers
    assert headers.pop("node")
    assert headers.pop("connection")
    assert headers == {
        "exchange_name": "amq.fanout",
        "routing_keys": ["some.key"],
        "properties": {
            "content_type": "text/plain", "headers": {"h": 1}, "delivery_mode": 2, "priority": 3,
            "message_id": "m", "timestamp": 5, "expiration": "60000", "app_id": "app",
        },
        "vhost": traced.realm.vhost,
        "channel": 2,
        "user": traced.user,
        "routed_queues": ["q1", "q2"],
    }  # fmt: skip


def test_every_publish_is_copied_and_keys_of_cc_and_bcc_are_shown(traced: Traced) -> None:
    channel = traced.channel
    declare_two(channel)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("amq.fanout", "k", body)
    channel.basic_publish("", "q1", b"4", pika.BasicProperties(headers={"CC": ["c"], "BCC": ["b"]}))
    copies = traced.copies(4)
    assert [copy.body for copy in copies] == [b"1", b"2", b"3", b"4"]
    assert [copy.method.routing_key for copy in copies] == [*["publish.amq.fanout"] * 3, "publish."]
    assert copies[-1].properties.headers["routing_keys"] == ["q1", "c", "b"]
    assert copies[-1].properties.headers["properties"] == {"headers": {"CC": ["c"]}}
    assert [each.body for each in (take(channel, "q1") for _ in range(4))][-1] == b"4"
    assert traced.copies(4)[-1].properties.headers["routing_keys"][:2] == ["q1", "c"]


def test_deliveries_and_gets_are_copied(traced: Traced) -> None:
    channel = traced.channel
    declare_two(channel)
    channel.basic_publish("amq.fanout", "k", b"m")
    traced.copies(1)
    first = get(channel, "q1")
    assert first is not None
    channel.basic_reject(first.method.delivery_tag)
    assert get(channel, "q1", auto_ack=True) is not None
    inbox = consume(channel, "q2", auto_ack=True)
    inbox.await_count(1)
    copies = traced.copies(3)
    assert [copy.method.routing_key for copy in copies] == [
        "deliver.q1",
        "deliver.q1",
        "deliver.q2",
    ]
    assert [copy.properties.headers["redelivered"] for copy in copies] == [0, 1, 0]
    assert {copy.body for copy in copies} == {b"m"}
    assert copies[2].properties.headers["routing_keys"] == ["k"]
    assert "routed_queues" not in copies[2].properties.headers


def test_a_consumer_that_acknowledges_is_traced_too(traced: Traced) -> None:
    channel = traced.channel
    channel.queue_declare("q")
    inbox = consume(channel, "q")
    channel.basic_publish("", "q", b"m")
    inbox.await_count(1)
    assert {copy.method.routing_key for copy in traced.copies(2)} == {"publish.", "deliver.q"}


def test_nothing_is_copied_before_tracing_is_on_or_after_it_is_off(traced: Traced) -> None:
    channel = traced.channel
    channel.queue_declare("q")
    traced.turn(False)
    for _ in range(3):
        channel.basic_publish("", "q", b"unseen")
    assert ready_count(channel, "q") == 3
    traced.turn(True)
    channel.basic_publish("", "q", b"seen")
    assert [copy.body for copy in traced.copies(1)] == [b"seen"]
    traced.turn(False)
    channel.basic_publish("", "q", b"unseen")
    assert len(drain(channel, "q")) == 5
    settle(channel)
    assert get(channel, "tap") is None


def test_a_key_chooses_what_is_copied(traced: Traced) -> None:
    channel = traced.channel
    channel.queue_unbind("tap", "amq.rabbitmq.trace", "#")
    channel.queue_bind("tap", "amq.rabbitmq.trace", "deliver.q")
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"m")
    assert take(channel, "q").body == b"m"
    (copy,) = traced.copies(1)
    assert copy.method.routing_key == "deliver.q"
