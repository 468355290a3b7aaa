"""Super streams on a real broker: declared in one call, published to by key, grown while in use."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import consume, eventually, ready_count
from acceptance.control import Control
from acceptance.management_client import Api
from live_broker import Connect
from warren.routing.murmur import SEED, murmur3_32

pytestmark = pytest.mark.skipif("WARREN_TEST_BROKER" in os.environ, reason="Warren's own API")

PERSISTENT = pika.BasicProperties(delivery_mode=2)
KEYS = [f"customer-{number}" for number in range(60)]


@pytest.fixture
def channel(connect: Connect, vhost: str) -> BlockingChannel:
    channel = connect(virtual_host=vhost).channel()
    channel.confirm_delivery()
    return channel


def declare(api: Api, vhost: str, name: str = "orders", **body: Any) -> Any:
    return api.put("warren", "super-streams", vhost, name, body=body)


def shown(api: Api, vhost: str, name: str = "orders") -> dict[str, Any]:
    found: dict[str, Any] = api.must(api.get("warren", "super-streams", vhost, name))
    return found


def streams(api: Api, vhost: str, name: str = "orders") -> list[str]:
    return [partition["name"] for partition in shown(api, vhost, name)["partitions"]]


def keys_in(channel: BlockingChannel, stream: str) -> list[str]:
    """The routing keys of all records of a stream, in order."""
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=1_000)
    count = ready_count(channel, stream)
    inbox = consume(reader, stream, arguments={"x-stream-offset": "first"})
    inbox.await_count(count)
    reader.close()
    return [message.method.routing_key for message in inbox.messages]


def test_one_call_declares_exchange_streams_and_bindings_as_rabbitmq_names_them(
    api: Api, vhost: str
) -> None:
    assert declare(api, vhost, partitions=3, arguments={"x-max-age": "7D"}).status == 201
    assert declare(api, vhost, partitions=3, arguments={"x-max-age": "7D"}).status == 204
    exchange = api.must(api.get("exchanges", vhost, "orders"))
    assert (exchange["type"], exchange["durable"]) == ("x-super-stream", True)
    assert exchange["arguments"] == {"x-super-stream": True}
    bindings = api.must(api.get("exchanges", vhost, "orders", "bindings", "source"))
    found = [(b["destination"], b["routing_key"], b["arguments"]) for b in bindings]
    assert sorted(found) == [
        (f"orders-{n}", str(n), {"x-stream-partition-order": n}) for n in range(3)
    ]
    queue = api.must(api.get("queues", vhost, "orders-1"))
    assert queue["arguments"] == {
        "x-queue-type": "stream",
        "x-max-age": "7D",
        "x-queue-leader-locator": "balanced",
    }
    assert streams(api, vhost) == ["orders-0", "orders-1", "orders-2"]
    assert [each["name"] for each in api.must(api.get("warren", "super-streams", vhost))] == [
        "orders"
    ]


def test_a_publisher_uses_its_own_keys_and_each_has_one_partition(
    api: Api, vhost: str, channel: BlockingChannel
) -> None:
    api.must(declare(api, vhost, partitions=4))
    for _ in range(2):
        for key in KEYS:
            channel.basic_publish("orders", key, b"x", PERSISTENT, mandatory=True)
    for number in range(4):
        expected = [key for key in KEYS if murmur3_32(key.encode(), SEED) % 4 == number]
        assert keys_in(channel, f"orders-{number}") == expected * 2


def test_partitions_by_routing_key_are_a_direct_exchange(
    api: Api, vhost: str, channel: BlockingChannel
) -> None:
    api.must(declare(api, vhost, routing_keys=["emea", "apac"]))
    assert shown(api, vhost)["type"] == "direct"
    assert streams(api, vhost) == ["orders-emea", "orders-apac"]
    channel.basic_publish("orders", "apac", b"x", PERSISTENT, mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("orders", "other", b"x", PERSISTENT, mandatory=True)
    assert keys_in(channel, "orders-apac") == ["apac"]


def test_what_rabbitmq_has_exported_is_a_super_stream_here(
    api: Api, vhost: str, channel: BlockingChannel
) -> None:
    """A direct exchange with the argument: clients hash, and publish with the number."""
    channel.exchange_declare("orders", "direct", durable=True, arguments={"x-super-stream": True})
    for number in (1, 0):
        stream = f"orders-{number}"
        channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
        order = {"x-stream-partition-order": number}
        channel.queue_bind(stream, "orders", str(number), arguments=order)
    assert streams(api, vhost) == ["orders-0", "orders-1"]
    assert declare(api, vhost, partitions=3).status == 204
    assert shown(api, vhost)["type"] == "direct"
    assert streams(api, vhost) == ["orders-0", "orders-1", "orders-2"]


def test_it_grows_while_it_is_published_to_and_nothing_is_lost(
    api: Api, vhost: str, channel: BlockingChannel, connect: Connect
) -> None:
    """Every publish is mandatory: a moment without a route would return one."""
    api.must(declare(api, vhost, partitions=2, arguments={"x-max-age": "1D"}))
    has_grown, published = threading.Event(), Counter[str]()

    def publish() -> None:
        after = 0
        while after < 3:
            after += has_grown.is_set()
            for key in KEYS:
                channel.basic_publish("orders", key, b"x", PERSISTENT, mandatory=True)
                published[key] += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    for count in (3, 5):
        api.must(declare(api, vhost, partitions=count))
    has_grown.set()
    publisher.join(60)
    assert not publisher.is_alive()
    reader = connect(virtual_host=vhost).channel()
    found = [keys_in(reader, f"orders-{number}") for number in range(5)]
    assert sum(map(Counter, found), Counter()) == published
    for number, keys in enumerate(found):
        last = keys[-1]
        assert murmur3_32(last.encode(), SEED) % 5 == number
    arguments = api.must(api.get("queues", vhost, "orders-4"))["arguments"]
    assert arguments["x-max-age"] == "1D", "as those that were there"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"partitions": 2}, "is never made smaller: the declaration leaves out 'orders-2'"),
        ({"routing_keys": ["a", "b", "c"]}, "never made smaller"),
        ({"partitions": 0}, "has 1 to 1000 partitions, not 0"),
        ({"partitions": "3"}, "not_integer"),
        ({"routing_keys": "a"}, "not_strings"),
        ({"partitions": 3, "routing_keys": ["a"]}, "not both"),
        ({"partitions": 3, "type": "direct"}, "inequivalent arg 'type'"),
        ({"partitions": 3, "type": "topic"}, "of type x-super-stream or direct"),
        ({"partitions": 3, "arguments": {"x-max-age": "1h"}}, "inequivalent arg 'x-max-age'"),
        ({"partitions": 4, "arguments": {"x-max-length": 5}}, "invalid arg 'x-max-length'"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    api: Api, vhost: str, body: dict[str, Any], text: str
) -> None:
    api.must(declare(api, vhost, partitions=3))
    before = api.must(api.get("queues", vhost, columns="name"))
    refused = declare(api, vhost, **body)
    assert refused.status == 400
    assert text in json.dumps(refused.body), refused.body
    assert api.must(api.get("queues", vhost, columns="name")) == before


def test_names_that_are_taken_are_refused(api: Api, vhost: str, channel: BlockingChannel) -> None:
    channel.exchange_declare("plain", "direct")
    refused = declare(api, vhost, "plain")
    assert (refused.status, "is not a super stream" in str(refused.body)) == (400, True)
    channel.queue_declare("taken-1", durable=True)
    refused = declare(api, vhost, "taken")
    assert (refused.status, "is not a stream" in str(refused.body)) == (400, True)
    assert api.get("exchanges", vhost, "taken").status == 404
    assert api.get("queues", vhost, "taken-0").status == 404
    assert declare(api, vhost, "amq.mine").status == 401 or "reserved" in str(refused.body)


def test_a_declaration_mends_what_was_taken_apart(api: Api, vhost: str) -> None:
    api.must(declare(api, vhost, partitions=3))
    api.must(api.delete("queues", vhost, "orders-1"))
    assert streams(api, vhost) == ["orders-0", "orders-2"]
    api.must(declare(api, vhost, partitions=3))
    assert streams(api, vhost) == ["orders-0", "orders-1", "orders-2"]


def test_very_many_partitions_come_in_more_than_one_step(api: Api, vhost: str) -> None:
    api.must(declare(api, vhost, partitions=100))
    assert streams(api, vhost) == [f"orders-{number}" for number in range(100)]
    api.must(api.delete("warren", "super-streams", vhost, "orders"))
    assert api.must(api.get("queues", vhost)) == []
    assert api.get("exchanges", vhost, "orders").status == 404
    assert api.delete("warren", "super-streams", vhost, "orders").status == 404


def test_a_limit_on_queues_holds_for_all_partitions_together(api: Api, vhost: str) -> None:
    api.must(api.put("vhost-limits", vhost, "max-queues", body={"value": 2}))
    assert declare(api, vhost, partitions=3).status in (400, 401)
    assert api.must(api.get("queues", vhost)) == []
    api.must(declare(api, vhost, partitions=2))


def test_warrenctl_adds_lists_and_deletes(api: Api, vhost: str, control: Control) -> None:
    options = "--max-age PT12H --max-length-bytes 2gb --stream-max-segment-size-bytes 1mb"
    done = control.ok(f"add_super_stream -p {vhost} orders --partitions 2 {options}")
    assert "has 2 partitions" in done.out
    arguments = api.must(api.get("queues", vhost, "orders-0"))["arguments"]
    assert arguments["x-max-age"] == "12h"
    assert arguments["x-max-length-bytes"] == 2_000_000_000
    assert arguments["x-stream-max-segment-size-bytes"] == 1_000_000
    control.ok(f"add_super_stream -p {vhost} regions --routing-keys emea,apac")
    rows = json.loads(control.ok(f"list_super_streams -p {vhost} --formatter json").out)
    assert [(row["name"], row["partitions"], row["streams"]) for row in rows] == [
        ("orders", 2, ["orders-0", "orders-1"]),
        ("regions", 2, ["regions-emea", "regions-apac"]),
    ]
    refused = control(f"add_super_stream -p {vhost} orders --partitions 1")
    assert (refused.code, "never made smaller" in refused.err) == (65, True)
    wrong = control(f"add_super_stream -p {vhost} orders --max-age sometimes")
    assert (wrong.code, "--max-age" in wrong.err) == (65, True)
    control.ok(f"delete_super_stream -p {vhost} orders")
    assert control(f"delete_super_stream -p {vhost} orders").code == 65
    eventually(lambda: api.get("queues", vhost, "orders-0").status == 404)


def test_definitions_take_a_super_stream_along(
    api: Api, vhost: str, channel: BlockingChannel
) -> None:
    api.must(declare(api, vhost, partitions=3))
    exported = api.must(api.get("definitions", vhost))
    before = shown(api, vhost)
    api.must(api.delete("warren", "super-streams", vhost, "orders"))
    api.must(api.post("definitions", vhost, body=exported))
    assert shown(api, vhost) == before
    channel.basic_publish("orders", "customer-1", b"x", PERSISTENT, mandatory=True)
    number = murmur3_32(b"customer-1", SEED) % 3
    assert keys_in(channel, f"orders-{number}") == ["customer-1"]


def test_a_partition_is_bound_by_a_number_over_amqp_too(
    vhost: str, channel: BlockingChannel
) -> None:
    channel.exchange_declare("hashed", "x-super-stream", durable=True)
    channel.queue_declare("q")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.queue_bind("q", "hashed", "no number")
    assert refused.value.reply_code == 406
    assert "The binding key must be an integer: no number" in refused.value.reply_text
