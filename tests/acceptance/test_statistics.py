"""`message_stats`: what is counted where, as RabbitMQ counts it.

RabbitMQ shows what it counted up to five seconds later, so figures are waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from acceptance.management_client import Api
from broker_process import Address

SHOWN_WITHIN_S = 40.0
DELIVERING = {
    "deliver": 0, "deliver_no_ack": 0, "get": 0, "get_no_ack": 0, "deliver_get": 0,
    "redeliver": 0, "ack": 0, "get_empty": 0,
}  # fmt: skip


@pytest.fixture
def connection(broker: Address, vhost: str) -> Iterator[BlockingConnection]:
    where = pika.ConnectionParameters(broker.host, broker.port, vhost, heartbeat=0)
    with BlockingConnection(where) as connection:
        yield connection


def counts(figures: dict[str, Any] | None) -> dict[str, int]:
    """Without the rates, which must be there."""
    figures = figures or {}
    plain = {name: count for name, count in figures.items() if not name.endswith("_details")}
    assert {f"{name}_details" for name in plain} | set(plain) == set(figures)
    return plain


def wait_for(expected: dict[str, int], look: Callable[[], dict[str, int]]) -> None:
    deadline = time.monotonic() + SHOWN_WITHIN_S
    while (found := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found == expected


class Shown:
    """What the API shows of a virtual host."""

    def __init__(self, api: Api, vhost: str) -> None:
        self._api = api
        self._vhost = vhost

    def queue(self, name: str) -> Callable[[], dict[str, int]]:
        return lambda: self._of("queues", name)

    def exchange(self, name: str) -> Callable[[], dict[str, int]]:
        return lambda: self._of("exchanges", name)

    def channel(self, number: int) -> Callable[[], dict[str, int]]:
        """The only connection's channel of that number."""

        def look() -> dict[str, int]:
            listed = self._api.must(self._api.get("channels"))
            mine = [c for c in listed if (c.get("vhost"), c.get("number")) == (self._vhost, number)]
            return counts(mine[0].get("message_stats")) if mine else {}

        return look

    def _of(self, kind: str, name: str) -> dict[str, int]:
        shown = self._api.must(self._api.get(kind, self._vhost, name))
        return counts(shown.get("message_stats"))


@pytest.fixture
def shown(api: Api, vhost: str) -> Shown:
    return Shown(api, vhost)


def test_nothing_is_shown_of_what_nothing_happened_to(
    connection: BlockingConnection, shown: Shown
) -> None:
    connection.channel().queue_declare("quiet")
    assert shown.queue("quiet")() == {}
    assert shown.exchange("amq.fanout")() == {}


def test_a_queue_counts_what_channels_publish_to_it_and_not_its_dead_letters(
    connection: BlockingConnection, shown: Shown
) -> None:
    channel = connection.channel()
    channel.queue_declare("morgue")
    dying = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
    channel.queue_declare("full", arguments=dying)
    for _ in range(4):
        channel.basic_publish("", "full", b"message")
    wait_for({"publish": 4}, shown.queue("full"))
    assert shown.queue("morgue")() == {}


def test_every_way_of_getting_is_counted_by_itself(
    connection: BlockingConnection, shown: Shown
) -> None:
    channel = connection.channel()
    channel.queue_declare("work")
    for _ in range(6):
        channel.basic_publish("", "work", b"message")
    channel.basic_get("work", auto_ack=True)
    returned = channel.basic_get("work")[0]
    channel.basic_nack(returned.delivery_tag)
    again = channel.basic_get("work")[0]
    channel.basic_ack(again.delivery_tag)
    refused = channel.basic_get("work")[0]
    channel.basic_reject(refused.delivery_tag, requeue=False)
    for _ in range(3):
        channel.basic_get("work", auto_ack=True)
    channel.basic_get("work")
    expected = DELIVERING | {
        "publish": 6, "get": 3, "get_no_ack": 4, "deliver_get": 7, "redeliver": 1, "ack": 1,
        "get_empty": 1,
    }  # fmt: skip
    wait_for(expected, shown.queue("work"))


def test_deliveries_with_and_without_acknowledgement_are_counted_apart(
    connection: BlockingConnection, shown: Shown
) -> None:
    channel = connection.channel()
    tags = []
    for name, auto_ack in (("careful", False), ("careless", True)):
        channel.queue_declare(name)
        for _ in range(3):
            channel.basic_publish("", name, b"message")
        channel.basic_consume(name, lambda _, m, *rest: tags.append(m.delivery_tag), auto_ack)
    deadline = time.monotonic() + SHOWN_WITHIN_S
    while len(tags) < 6 and time.monotonic() < deadline:
        connection.process_data_events(0.1)
    channel.basic_ack(3, multiple=True)
    channel.queue_declare("careful", passive=True)
    careful = {"publish": 3, "deliver": 3, "deliver_get": 3, "ack": 3}
    wait_for(DELIVERING | careful, shown.queue("careful"))
    careless = {"publish": 3, "deliver_no_ack": 3, "deliver_get": 3}
    wait_for(DELIVERING | careless, shown.queue("careless"))


def test_a_channel_counts_what_was_confirmed_returned_and_dropped(
    connection: BlockingConnection, shown: Shown
) -> None:
    channel = connection.channel(1)
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"before confirms")
    channel.confirm_delivery()
    for _ in range(2):
        channel.basic_publish("", "q", b"confirmed")
    channel.basic_publish("", "nowhere", b"dropped, and confirmed")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"returned, and confirmed", mandatory=True)
    expected = {"publish": 5, "confirm": 4, "drop_unroutable": 1, "return_unroutable": 1}
    wait_for(expected, shown.channel(1))
    wait_for({"publish": 3}, shown.queue("q"))


def test_channels_of_one_connection_count_each_for_itself(
    connection: BlockingConnection, shown: Shown
) -> None:
    first, second = connection.channel(1), connection.channel(2)
    first.queue_declare("q")
    for number in range(9):
        (first if number % 3 else second).basic_publish("", "q", b"message")
    unused = {"confirm": 0, "drop_unroutable": 0, "return_unroutable": 0}
    wait_for({"publish": 6, **unused}, shown.channel(1))
    wait_for({"publish": 3, **unused}, shown.channel(2))
    wait_for({"publish": 9}, shown.queue("q"))


def test_an_exchange_counts_what_comes_in_and_the_copies_that_go_out(
    connection: BlockingConnection, shown: Shown
) -> None:
    """Only the one published to counts, also if it hands on to another one."""
    channel = connection.channel()
    channel.exchange_declare("first", "fanout")
    channel.exchange_declare("second", "fanout")
    channel.exchange_bind("second", "first")
    for name, source in (("a", "first"), ("b", "second")):
        channel.queue_declare(name)
        channel.queue_bind(name, source)
    for _ in range(3):
        channel.basic_publish("first", "", b"message")
    wait_for({"publish_in": 3, "publish_out": 6}, shown.exchange("first"))
    assert shown.exchange("second")() == {}
    wait_for({"publish": 3}, shown.queue("b"))


def test_a_transaction_counts_when_it_is_committed(
    connection: BlockingConnection, shown: Shown
) -> None:
    channel = connection.channel()
    channel.queue_declare("paper")
    channel.tx_select()
    channel.basic_publish("", "paper", b"rolled back")
    channel.tx_rollback()
    channel.basic_publish("", "paper", b"committed")
    channel.tx_commit()
    wait_for({"publish": 1}, shown.queue("paper"))


def test_a_rate_is_shown_and_falls_to_nothing_when_nothing_happens(
    connection: BlockingConnection, api: Api, vhost: str
) -> None:
    channel = connection.channel()
    channel.queue_declare("busy")

    def rate() -> float:
        shown = api.must(api.get("queues", vhost, "busy"))
        return float(shown.get("message_stats", {}).get("publish_details", {}).get("rate", 0.0))

    published = 0
    deadline = time.monotonic() + SHOWN_WITHIN_S
    while (seen := rate()) <= 1.0 and time.monotonic() < deadline:
        for _ in range(20):
            channel.basic_publish("", "busy", b"message")
        published += 20
        time.sleep(0.1)
    assert 1.0 < seen <= published
    deadline = time.monotonic() + SHOWN_WITHIN_S
    while rate() > 0.0 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert rate() == 0.0


def test_a_queue_that_grows_has_a_rate_of_its_length(
    connection: BlockingConnection, api: Api, vhost: str
) -> None:
    channel = connection.channel()
    channel.queue_declare("growing")

    def rate() -> float:
        shown = api.must(api.get("queues", vhost, "growing"))
        return float(shown.get("messages_ready_details", {}).get("rate", 0.0))

    deadline = time.monotonic() + SHOWN_WITHIN_S
    while (seen := rate()) <= 0.0 and time.monotonic() < deadline:
        channel.basic_publish("", "growing", b"message")
        time.sleep(0.1)
    assert seen > 0.0
