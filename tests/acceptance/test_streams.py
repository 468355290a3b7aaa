"""Stream queues: kept, read from any place by any number of consumers, credited by acks."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import (
    Inbox,
    channel_error,
    connection_error,
    consume,
    eventually,
    ready_count,
    settle,
)
from live_broker import Connect, Names

DAY = dt.timedelta(days=1)


def declare(channel: BlockingChannel, queue: str, **arguments: Any) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream", **named})


def append(channel: BlockingChannel, queue: str, count: int, first: int = 0) -> None:
    """One after another, each confirmed before the next: each is a chunk of its own."""
    channel.confirm_delivery()
    for number in range(first, first + count):
        properties = pika.BasicProperties(headers={"n": number} if number % 2 else None)
        channel.basic_publish("", queue, b"%d" % number, properties)


def read(channel: BlockingChannel, queue: str, offset: Any, prefetch: int = 100) -> Inbox:
    channel.basic_qos(prefetch_count=prefetch)
    return consume(channel, queue, arguments={"x-stream-offset": offset})


def offsets(inbox: Inbox) -> list[int]:
    return [int(message.properties.headers["x-stream-offset"]) for message in inbox.messages]


@pytest.fixture
def stream(channel: BlockingChannel, names: Names) -> str:
    """With the records 0 to 4."""
    queue = names("stream")
    declare(channel, queue)
    append(channel, queue, 5)
    eventually(lambda: ready_count(channel, queue) == 5)
    return queue


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("first", [0, 1, 2, 3, 4]),
        ("last", [4]),
        (0, [0, 1, 2, 3, 4]),
        (3, [3, 4]),
        ("1h", [0, 1, 2, 3, 4]),
        (-1, [0, 1, 2, 3, 4]),
    ],
)
def test_a_consumer_begins_where_it_asks_to(
    connect: Connect, stream: str, offset: Any, expected: list[int]
) -> None:
    inbox = read(connect().channel(), stream, offset)
    inbox.await_count(len(expected))
    settle(inbox.channel)
    assert offsets(inbox) == expected
    assert inbox.bodies == [b"%d" % number for number in expected]


def test_a_consumer_may_begin_at_a_moment(connect: Connect, stream: str) -> None:
    now = dt.datetime.now(dt.UTC)
    past = read(connect().channel(), stream, now - DAY)
    past.await_count(5)
    future = read(connect().channel(), stream, now + DAY)
    settle(future.channel)
    assert future.messages == []


@pytest.mark.parametrize("offset", [None, "next", 5])
def test_a_consumer_may_wait_for_what_comes(connect: Connect, stream: str, offset: Any) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=10)
    arguments = {} if offset is None else {"x-stream-offset": offset}
    inbox = consume(channel, stream, arguments=arguments)
    append(connect().channel(), stream, 2, first=5)
    inbox.await_count(2)
    assert offsets(inbox) == [5, 6]


def test_an_offset_that_is_not_there_yet_is_waited_for(connect: Connect, stream: str) -> None:
    inbox = read(connect().channel(), stream, 7)
    append(connect().channel(), stream, 4, first=5)
    inbox.await_count(2)
    assert offsets(inbox) == [7, 8]


def test_every_consumer_gets_everything_and_nothing_leaves(connect: Connect, stream: str) -> None:
    inboxes = [read(connect().channel(), stream, "first") for _ in range(3)]
    for inbox in inboxes:
        inbox.await_count(5)
        inbox.channel.basic_ack(5, multiple=True)
        assert inbox.bodies == [b"0", b"1", b"2", b"3", b"4"]
        assert not any(message.method.redelivered for message in inbox.messages)
    assert ready_count(connect().channel(), stream) == 5


def test_headers_and_properties_come_as_they_were_with_the_offset_added(
    connect: Connect, stream: str
) -> None:
    publisher = connect().channel()
    publisher.confirm_delivery()
    properties = pika.BasicProperties(
        content_type="text/plain", headers={"a": 1, "z": "last"}, delivery_mode=1, message_id="id"
    )
    publisher.basic_publish("", stream, b"full", properties)
    inbox = read(connect().channel(), stream, 5)
    inbox.await_count(1)
    got = inbox.messages[0].properties
    assert got.headers == {"a": 1, "z": "last", "x-stream-offset": 5}
    assert (got.content_type, got.delivery_mode, got.message_id) == ("text/plain", 1, "id")
    assert (inbox.messages[0].method.exchange, inbox.messages[0].method.routing_key) == ("", stream)


def test_prefetch_is_credit_that_acks_give_back(connect: Connect, stream: str) -> None:
    inbox = read(connect().channel(), stream, "first", prefetch=2)
    inbox.await_count(2)
    settle(inbox.channel)
    assert offsets(inbox) == [0, 1]
    inbox.channel.basic_ack(1)
    inbox.await_count(3)
    settle(inbox.channel)
    assert offsets(inbox) == [0, 1, 2]
    inbox.channel.basic_ack(3, multiple=True)
    inbox.await_count(5)


def test_a_consumer_that_comes_again_begins_where_it_says(connect: Connect, stream: str) -> None:
    """Nothing of what the first one left unacknowledged comes back by itself."""
    connection = connect()
    read(connection.channel(), stream, "first").await_count(5)
    connection.close()
    inbox = read(connect().channel(), stream, 2)
    inbox.await_count(3)
    assert offsets(inbox) == [2, 3, 4]
    assert not any(message.method.redelivered for message in inbox.messages)


def test_a_consumer_can_be_cancelled(connect: Connect, stream: str) -> None:
    inbox = read(connect().channel(), stream, "first")
    inbox.await_count(5)
    inbox.channel.basic_cancel(inbox.tag)
    append(connect().channel(), stream, 1, first=5)
    settle(inbox.channel)
    assert len(inbox.messages) == 5


def test_a_consumer_far_behind_is_served_from_the_disk(connect: Connect, names: Names) -> None:
    """More than is kept in memory, in segments that are much smaller."""
    channel, queue = connect().channel(), names("stream")
    declare(channel, queue, x_stream_max_segment_size_bytes=1_000_000)
    slow = read(connect().channel(), queue, "first", prefetch=50)
    channel.confirm_delivery()
    filler = bytes(60_000)
    for number in range(150):
        channel.basic_publish("", queue, b"%d:" % number + filler)
    for number in range(150):
        slow.await_count(number + 1)
        slow.channel.basic_ack(number + 1)
    assert offsets(slow) == list(range(150))
    assert [body.split(b":")[0] for body in slow.bodies] == [b"%d" % n for n in range(150)]


def test_streams_can_be_bound_like_any_queue(connect: Connect, names: Names) -> None:
    channel, exchange, queue = connect().channel(), names("exchange"), names("stream")
    declare(channel, queue)
    channel.exchange_declare(exchange, "topic")
    channel.queue_bind(queue, exchange, "a.#")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "a.b", b"yes")
    channel.basic_publish(exchange, "b.a", b"no")
    channel.basic_publish(exchange, "a", b"too")
    inbox = read(connect().channel(), queue, "first")
    inbox.await_count(2)
    assert inbox.bodies == [b"yes", b"too"]
    assert [message.method.routing_key for message in inbox.messages] == ["a.b", "a"]
    assert inbox.messages[0].method.exchange == exchange


def test_a_transaction_appends_when_it_is_committed(connect: Connect, stream: str) -> None:
    channel = connect().channel()
    channel.tx_select()
    channel.basic_publish("", stream, b"void")
    channel.tx_rollback()
    channel.basic_publish("", stream, b"done")
    channel.tx_commit()
    inbox = read(connect().channel(), stream, 5)
    inbox.await_count(1)
    assert inbox.bodies == [b"done"]


def test_consumers_of_a_deleted_stream_are_told(connect: Connect, stream: str) -> None:
    inbox = read(connect().channel(), stream, "first")
    inbox.await_count(5)
    told: list[Any] = []
    inbox.channel.add_on_cancel_callback(told.append)
    channel = connect().channel()
    channel.queue_delete(stream)

    def is_told() -> bool:
        inbox.channel.connection.process_data_events(time_limit=0)
        return bool(told)

    eventually(is_told)
    declare(channel, stream)
    assert ready_count(channel, stream) == 0


def test_what_streams_do_not_do_is_refused(connect: Connect, stream: str) -> None:
    name = f"queue '{stream}' in vhost '/'"
    with connection_error(540) as refusal:
        connect().channel().basic_get(stream)
    assert refusal.text == f"NOT_IMPLEMENTED - basic.get not supported by stream queues {name}"
    with connection_error(540) as refusal:
        connect().channel().queue_purge(stream)
    assert refusal.text == f"NOT_IMPLEMENTED - queue.purge not supported by stream queues {name}"
    with channel_error(406) as refusal:
        consume(connect().channel(), stream)
    assert refusal.text == (
        f"PRECONDITION_FAILED - consumer prefetch count is not set for '{name}'"
    )
    channel = connect().channel()
    channel.basic_qos(prefetch_count=5)
    with connection_error(540) as refusal:
        consume(channel, stream, auto_ack=True)
    assert refusal.text == (
        f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues {name}"
    )


@pytest.mark.parametrize("requeue", [True, False])
def test_nothing_can_be_returned_to_a_stream(connect: Connect, stream: str, requeue: bool) -> None:
    inbox = read(connect().channel(), stream, "first")
    inbox.await_count(5)
    with connection_error(540) as refusal:
        inbox.channel.basic_nack(3, multiple=True, requeue=requeue)
        settle(inbox.channel, 30)
    assert refusal.text == (
        "NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues "
        f"queue '{stream}' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("options", "flaw"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_a_stream_belongs_to_no_connection_and_no_node(
    channel: BlockingChannel, names: Names, options: dict[str, bool], flaw: str
) -> None:
    queue = names("stream")
    with channel_error(406) as refusal:
        channel.queue_declare(queue, arguments={"x-queue-type": "stream"}, **options)
    assert refusal.text == (
        f"PRECONDITION_FAILED - invalid property '{flaw}' for queue '{queue}' in vhost '/'"
    )
