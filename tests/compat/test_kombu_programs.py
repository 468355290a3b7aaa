"""Programs as people write them with kombu, run unchanged."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.mixins import ConsumerMixin
from kombu.pools import connections

from broker_process import Address
from live_broker import Names


@pytest.fixture
def connection(broker: Address, names: Names) -> Iterator[Connection]:
    with Connection(f"amqp://guest:guest@{broker.host}:{broker.port}//") as connection:
        yield connection


def drain(connection: Connection, count: int, received: list[Any]) -> None:
    while len(received) < count:
        connection.drain_events(timeout=30)


def test_producer_and_consumer_share_declarations(connection: Connection, names: Names) -> None:
    """Entities declared as objects; JSON and pickle-free by default; acks by the callback."""
    exchange = Exchange(names("media"), "direct", durable=True)
    queue = Queue(names("video"), exchange=exchange, routing_key="video")
    received: list[Any] = []

    def process(body: Any, message: Any) -> None:
        received.append((body, message.content_type))
        message.ack()

    producer = Producer(connection.channel(), serializer="json")
    for number in range(3):
        producer.publish(
            {"name": number}, exchange=exchange, routing_key="video", declare=[queue], retry=True
        )
    with Consumer(connection.channel(), [queue], callbacks=[process]):
        drain(connection, 3, received)
    assert received == [({"name": number}, "application/json") for number in range(3)]


def test_a_simple_queue(connection: Connection, names: Names) -> None:
    queue = connection.SimpleQueue(names("simple"))
    for number in range(3):
        queue.put({"n": number})
    for number in range(3):
        message = queue.get(timeout=30)
        assert message.payload == {"n": number}
        message.ack()
    with pytest.raises(queue.Empty):
        queue.get(block=False)
    queue.close()


def test_a_consumer_mixin_stops_when_told(connection: Connection, names: Names) -> None:
    queue = Queue(names("mixin"), durable=False)

    class Worker(ConsumerMixin):
        def __init__(self) -> None:
            self.connection = connection
            self.received: list[Any] = []

        def get_consumers(self, Consumer: Any, channel: Any) -> list[Any]:  # noqa: N803
            return [Consumer([queue], callbacks=[self.on_message], prefetch_count=1)]

        def on_message(self, body: Any, message: Any) -> None:
            self.received.append(body)
            message.ack()
            self.should_stop = len(self.received) == 3

    with connections[connection].acquire(block=True) as other:
        producer = Producer(other)
        for number in range(3):
            producer.publish(number, routing_key=queue.name, declare=[queue])
    worker = Worker()
    worker.run(_tokens=1)
    assert worker.received == [0, 1, 2]


def test_priorities_and_expiry_by_queue_options(connection: Connection, names: Names) -> None:
    queue = Queue(names("options"), max_priority=5, message_ttl=60.0, max_length=10, durable=False)
    producer = Producer(connection.channel())
    for priority in (1, 5, 3):
        producer.publish(priority, routing_key=queue.name, declare=[queue], priority=priority)
    bound = queue(connection.channel())
    assert [bound.get(no_ack=True).payload for _ in range(3)] == [5, 3, 1]


def test_unroutable_messages_come_back(connection: Connection, names: Names) -> None:
    returned: list[Any] = []
    channel = connection.channel()
    producer = Producer(channel, on_return=lambda *what: returned.append(what))
    producer.publish("lost", routing_key=names("nowhere"), mandatory=True)
    drain(connection, 1, returned)
    ((error, _, routing_key, message),) = returned
    assert (error.reply_text, routing_key) == ("NO_ROUTE", names.given[-1])
    assert message.body == "lost"


def test_confirmed_publishes(broker: Address, names: Names) -> None:
    """`confirm_publish` makes publish wait for the broker."""
    url = f"amqp://guest:guest@{broker.host}:{broker.port}//"
    with Connection(url, transport_options={"confirm_publish": True}) as connection:
        queue = Queue(names("confirmed"), durable=False)
        producer = Producer(connection.channel())
        for number in range(10):
            producer.publish(number, routing_key=queue.name, declare=[queue])
        assert queue(connection.channel()).purge() == 10


def test_an_idle_consumer_times_out_and_lives(connection: Connection, names: Names) -> None:
    queue = Queue(names("idle"), durable=False)
    received: list[Any] = []
    consumer = Consumer(connection.channel(), [queue], callbacks=[lambda b, _: received.append(b)])
    with consumer:
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.2)
        Producer(connection.channel()).publish("late", routing_key=queue.name)
        drain(connection, 1, received)
    assert received == ["late"]


def test_a_broken_connection_is_revived(connection: Connection, names: Names) -> None:
    """`ensure` reconnects and publishes again when the socket went away."""
    queue = Queue(names("revived"), durable=False)
    producer = Producer(connection.channel())
    producer.publish("before", routing_key=queue.name, declare=[queue])
    connection.connection.transport.sock.shutdown(socket.SHUT_RDWR)
    publish = connection.ensure(producer, producer.publish, max_retries=5, interval_start=0.05)
    publish("after", routing_key=queue.name, declare=[queue])
    bound = queue(connection.channel())
    assert [bound.get(no_ack=True).payload for _ in range(2)] == ["before", "after"]
