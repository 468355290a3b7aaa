"""Browsing: the messages of a queue are shown wherever they are, and nothing happens to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess

MESSAGES = 5_000
PERSISTENT = pika.BasicProperties(delivery_mode=2)
LAZY = {"x-queue-mode": "lazy"}
PAGED_WITHIN_S = 60.0
# Larger than what is kept beside the index entry, so that it is in a message store.
LARGE = b"x" * 6_000


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("browsed"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def api(started: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", started.http_port))


@pytest.fixture
def channel(started: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*started.address))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def browse(api: Api, queue: str, **query: object) -> dict[str, Any]:
    shown: dict[str, Any] = api.must(api.get("warren", "queues", "/", queue, "browse", **query))
    return shown


def bodies(page: dict[str, Any]) -> list[str]:
    return [item["payload"].rstrip("x") for item in page["items"]]


def fill(
    channel: BlockingChannel, queue: str, count: int, body: bytes = b"", **declare: Any
) -> None:
    """Returns when all are safe: the last is confirmed after those before it."""
    channel.queue_declare(queue, durable=True, **declare)
    for number in range(count):
        if number == count - 1:
            channel.confirm_delivery()
        channel.basic_publish("", queue, b"%d" % number + body, PERSISTENT)


def wait_until_paged_out(api: Api, queue: str, count: int) -> None:
    deadline = time.monotonic() + PAGED_WITHIN_S
    shown = 0
    while shown < count and time.monotonic() < deadline:
        time.sleep(0.1)
        shown = api.must(api.get("queues", "/", queue))["messages_paged_out"]
    assert shown >= count


def assert_untouched(channel: BlockingChannel, queue: str, count: int) -> None:
    """All still come, in their order, and nobody has had them."""
    for number in range(count):
        method, _, body = channel.basic_get(queue)
        assert body is not None
        assert (body.rstrip(b"x"), method.redelivered) == (b"%d" % number, False)
    assert channel.basic_get(queue)[0] is None


def test_a_queue_in_memory_is_shown_and_stays_as_it_was(api: Api, channel: BlockingChannel) -> None:
    channel.queue_declare("memory")
    for number in range(30):
        channel.basic_publish("", "memory", b"%d" % number)
    channel.queue_declare("memory", passive=True)  # answered when all of that is done
    for _ in range(2):
        page = browse(api, "memory", offset=10, limit=5)
        assert bodies(page) == ["10", "11", "12", "13", "14"]
        assert [item["position"] for item in page["items"]] == [10, 11, 12, 13, 14]
        assert {item["redelivered"] for item in page["items"]} == {False}
        assert (page["offset"], page["next_offset"], page["messages_ready"]) == (10, 15, 30)
    assert browse(api, "memory", offset=28)["next_offset"] is None
    assert browse(api, "memory", offset=100)["items"] == []
    assert_untouched(channel, "memory", 30)


def test_a_queue_on_disk_is_shown_wherever_its_messages_are(
    api: Api, channel: BlockingChannel
) -> None:
    fill(channel, "lazy", MESSAGES, arguments=LAZY)
    wait_until_paged_out(api, "lazy", MESSAGES - 1_000)
    for offset in (0, 1, 2_047, 2_048, 3_333, MESSAGES - 100):
        shown = bodies(browse(api, "lazy", offset=offset, limit=100))
        assert shown == [str(number) for number in range(offset, offset + 100)], offset
    assert browse(api, "lazy", offset=MESSAGES - 1)["next_offset"] is None
    assert_untouched(channel, "lazy", MESSAGES)


def test_large_bodies_are_read_from_their_store(api: Api, channel: BlockingChannel) -> None:
    fill(channel, "large", 300, LARGE, arguments=LAZY)
    wait_until_paged_out(api, "large", 250)
    page = browse(api, "large", offset=100, limit=250, truncate=10_000)
    assert bodies(page) == [str(number) for number in range(100, 300)]
    assert {item["payload_bytes"] for item in page["items"]} == {6_003}
    assert browse(api, "large", limit=1, truncate=3)["items"][0]["payload"] == "0xx"
    assert_untouched(channel, "large", 300)


def test_messages_from_before_a_restart_are_shown(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    connection = pika.BlockingConnection(pika.ConnectionParameters(*broker.address))
    fill(connection.channel(), "small", 3_000)
    fill(connection.channel(), "large", 100, LARGE)
    connection.close()
    broker.kill()
    broker.start()
    api = Api(Address("127.0.0.1", broker.http_port))
    try:
        for offset in (0, 2_900):
            shown = bodies(browse(api, "small", offset=offset, limit=100))
            assert shown == [str(number) for number in range(offset, offset + 100)]
        assert bodies(browse(api, "large", limit=100)) == [str(number) for number in range(100)]
    finally:
        broker.stop()


@pytest.mark.parametrize("arguments", [{}, LAZY], ids=["default", "lazy"])
def test_a_priority_queue_is_shown_in_the_order_of_its_deliveries(
    api: Api, channel: BlockingChannel, arguments: dict[str, Any]
) -> None:
    queue = f"priorities {len(arguments)}"
    arguments = {"x-max-priority": 3, **arguments}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for number in range(30):
        properties = pika.BasicProperties(delivery_mode=2, priority=number % 3)
        channel.basic_publish("", queue, b"%d" % number, properties)
    order = [str(number) for level in (2, 1, 0) for number in range(level, 30, 3)]
    assert bodies(browse(api, queue)) == order
    assert bodies(browse(api, queue, offset=8, limit=15)) == order[8:23]


def test_what_came_back_is_shown_as_redelivered_in_its_place(
    api: Api, channel: BlockingChannel
) -> None:
    fill(channel, "returned", 5)
    for _ in range(2):
        method, _, _ = channel.basic_get("returned")
    assert bodies(browse(api, "returned")) == ["2", "3", "4"]
    channel.basic_nack(method.delivery_tag, multiple=True)
    channel.queue_declare("returned", passive=True)
    page = browse(api, "returned")
    assert bodies(page) == ["0", "1", "2", "3", "4"]
    assert [item["redelivered"] for item in page["items"]] == [True, True, False, False, False]


def test_a_filter_finds_texts_in_bodies_names_and_properties(
    api: Api, channel: BlockingChannel
) -> None:
    channel.queue_declare("filtered")
    channel.queue_bind("filtered", "amq.topic", "#")
    for number in range(600):
        channel.basic_publish("amq.topic", f"key.{number}", b"body of %d." % number)
    tagged = pika.BasicProperties(headers={"customer": "Jones"})
    channel.basic_publish("amq.topic", "key", b"", tagged)
    channel.queue_declare("filtered", passive=True)  # answered when all of that is done
    page = browse(api, "filtered", filter="body of 59")
    assert [item["position"] for item in page["items"]] == [59, *range(590, 600)]
    assert browse(api, "filtered", filter="key.321")["items"][0]["payload"] == "body of 321."
    assert browse(api, "filtered", filter="Jones")["items"][0]["position"] == 600
    first = browse(api, "filtered", filter="59", limit=2)
    assert [item["position"] for item in first["items"]] == [59, 159]
    second = browse(api, "filtered", filter="59", limit=2, offset=first["next_offset"])
    assert [item["position"] for item in second["items"]] == [259, 359]
    nothing = browse(api, "filtered", filter="Smith")
    assert (nothing["items"], nothing["next_offset"]) == ([], None)


def test_one_request_shows_a_bounded_number_of_messages(api: Api, channel: BlockingChannel) -> None:
    fill(channel, "many", 1_200)
    page = browse(api, "many", limit=10_000)
    assert (len(page["items"]), page["next_offset"]) == (1_000, 1_000)


def test_browsing_takes_a_queue_and_the_right_to_read_it(
    api: Api, channel: BlockingChannel
) -> None:
    fill(channel, "secret", 1)
    assert api.get("warren", "queues", "/", "nope", "browse").status == 404
    for query in ({"offset": "-1"}, {"limit": "x"}, {"truncate": ""}):
        assert api.get("warren", "queues", "/", "secret", "browse", **query).status == 400
    api.must(api.put("users", "reader", body={"password": "x", "tags": "management"}))
    nothing = {"configure": ".*", "write": ".*", "read": "^other"}
    api.must(api.put("permissions", "/", "reader", body=nothing))
    answer = api.as_user("reader", "x").get("warren", "queues", "/", "secret", "browse")
    assert answer.status == 401


def test_a_queue_can_be_emptied_while_it_is_browsed(api: Api, channel: BlockingChannel) -> None:
    """Whatever is shown is a message of the queue, in order; the consumer gets every one."""
    fill(channel, "busy", MESSAGES, arguments=LAZY)
    got: list[bytes] = []
    channel.basic_qos(prefetch_count=200)

    def take(taken_from: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        got.append(body)
        taken_from.basic_ack(method.delivery_tag)

    channel.basic_consume("busy", take)
    while len(got) < MESSAGES:
        channel.connection.process_data_events(time_limit=1)
        shown = [int(body) for body in bodies(browse(api, "busy", offset=500, limit=50))]
        assert shown == sorted(shown)
    assert got == [b"%d" % number for number in range(MESSAGES)]
