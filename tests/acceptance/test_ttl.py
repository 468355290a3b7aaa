"""Messages that live for a while only."""

from __future__ import annotations

import time

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import (
    Message,
    channel_error,
    consume,
    drain,
    eventually,
    get,
    publish,
    ready_count,
    take,
)
from live_broker import Names


def declare(channel: BlockingChannel, names: Names, **arguments: object) -> str:
    queue = names("queue")
    dashed = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, arguments=dashed)
    return queue


def outlive(channel: BlockingChannel, queue: str) -> None:
    """Until messages that live for 50 ms, and are in the broker's hands, must be gone."""
    ready_count(channel, queue)
    time.sleep(0.3)


def hold(channel: BlockingChannel, queue: str, **properties: str) -> Message:
    """Handed to a consumer that waits for it, so that it cannot expire before."""
    inbox = consume(channel, queue)
    publish(channel, queue, b"held", **properties)
    inbox.await_count(1)
    channel.basic_cancel(inbox.tag)
    return inbox.messages[0]


def test_a_queue_sets_a_time_to_live(channel: BlockingChannel, names: Names) -> None:
    """T119: x-message-ttl 50: gone soon, without anybody looking."""
    queue = declare(channel, names, x_message_ttl=50)
    publish(channel, queue, b"one", b"two")
    eventually(lambda: ready_count(channel, queue) == 0)
    assert get(channel, queue) is None


def test_a_message_sets_its_own(channel: BlockingChannel, names: Names) -> None:
    """T120: expiration "50" is milliseconds as text."""
    queue = declare(channel, names)
    publish(channel, queue, b"short", expiration="50")
    publish(channel, queue, b"long")
    outlive(channel, queue)
    assert drain(channel, queue) == [b"long"]


@pytest.mark.parametrize(
    ("value", "text"), [("x", "no_integer"), ("-1", "value_negative"), ("5s", "leftover_string")]
)
def test_an_expiration_is_a_natural_number(
    channel: BlockingChannel, names: Names, value: str, text: str
) -> None:
    """T120: anything else is a 406 that shows the value."""
    queue = declare(channel, names)
    publish(channel, queue, b"", expiration=value)
    with channel_error(406) as refusal:
        ready_count(channel, queue)
    assert f"invalid expiration '{value}'" in refusal.text
    assert text in refusal.text


@pytest.mark.parametrize("value", [-1, "x"])
def test_a_queues_ttl_is_a_natural_number(
    channel: BlockingChannel, names: Names, value: object
) -> None:
    """T120: x-message-ttl may be 0 but not less, nor a word."""
    with channel_error(406) as refusal:
        declare(channel, names, x_message_ttl=value)
    assert "invalid arg 'x-message-ttl' for queue" in refusal.text


@pytest.mark.parametrize(("queue_ttl", "message_ttl"), [(10000, "50"), (50, "10000")])
def test_the_smaller_of_two_wins(
    channel: BlockingChannel, names: Names, queue_ttl: int, message_ttl: str
) -> None:
    """T121: whether the queue or the message asked for it."""
    queue = declare(channel, names, x_message_ttl=queue_ttl)
    publish(channel, queue, b"short", expiration=message_ttl)
    outlive(channel, queue)
    assert drain(channel, queue) == []


def test_zero_needs_a_waiting_consumer(channel: BlockingChannel, names: Names) -> None:
    """T122: TTL 0 is dropped with nobody there and delivered to a consumer that waits."""
    queue = declare(channel, names, x_message_ttl=0)
    publish(channel, queue, b"nobody")
    assert drain(channel, queue) == []
    inbox = consume(channel, queue)
    publish(channel, queue, b"somebody")
    inbox.await_count(1)
    assert inbox.bodies == [b"somebody"]


def test_a_message_expires_at_the_head(channel: BlockingChannel, names: Names) -> None:
    """T123: a short-lived one behind a long-lived one goes when it is its turn, never delivered."""
    queue = declare(channel, names)
    publish(channel, queue, b"long", expiration="60000")
    publish(channel, queue, b"short", expiration="30")
    outlive(channel, queue)
    assert ready_count(channel, queue) == 2
    assert drain(channel, queue) == [b"long"]


def test_a_requeue_does_not_renew_the_lease(channel: BlockingChannel, names: Names) -> None:
    """T124: given back after its time, a message is gone."""
    queue = declare(channel, names)
    held = hold(channel, queue, expiration="300")
    time.sleep(0.5)
    channel.basic_nack(held.method.delivery_tag, requeue=True)
    eventually(lambda: ready_count(channel, queue) == 0)
    assert drain(channel, queue) == []


def test_an_unacknowledged_message_does_not_expire(channel: BlockingChannel, names: Names) -> None:
    """T124: whoever holds it may take its time."""
    queue = declare(channel, names, x_message_ttl=300)
    held = hold(channel, queue)
    time.sleep(0.5)
    channel.basic_ack(held.method.delivery_tag)
    channel.basic_qos(prefetch_count=1)


def test_an_expiration_is_passed_on(channel: BlockingChannel, names: Names) -> None:
    """T120: the property stays on the message."""
    queue = declare(channel, names)
    publish(channel, queue, b"", expiration="60000")
    assert take(channel, queue).properties.expiration == "60000"
