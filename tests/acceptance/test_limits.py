"""Queues with a maximum: what is dropped, what is refused, and what does not count."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error, consume, drain, publish, take
from live_broker import Names

FIVE = [b"1", b"2", b"3", b"4", b"5"]


def declare(channel: BlockingChannel, names: Names, **arguments: object) -> str:
    queue = names("queue")
    dashed = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, arguments=dashed)
    return queue


@pytest.mark.parametrize("overflow", [{}, {"x_overflow": "drop-head"}])
def test_a_full_queue_drops_its_oldest(
    channel: BlockingChannel, names: Names, overflow: dict[str, str]
) -> None:
    """T138: max-length 3, five published: the last three stay."""
    queue = declare(channel, names, x_max_length=3, **overflow)
    publish(channel, queue, *FIVE)
    assert drain(channel, queue) == [b"3", b"4", b"5"]


def test_unacknowledged_messages_do_not_count(channel: BlockingChannel, names: Names) -> None:
    """T139: three held and three ready are fine with max-length 3."""
    queue = declare(channel, names, x_max_length=3)
    publish(channel, queue, b"a", b"b", b"c")
    held = [take(channel, queue) for _ in range(3)]
    publish(channel, queue, b"d", b"e", b"f")
    channel.basic_ack(held[-1].method.delivery_tag, multiple=True)
    assert drain(channel, queue) == [b"d", b"e", b"f"]


def test_a_requeue_into_a_full_queue_drops_the_head(channel: BlockingChannel, names: Names) -> None:
    """T139: what comes back takes its old place, which is the head that goes."""
    queue = declare(channel, names, x_max_length=2)
    publish(channel, queue, b"a", b"b")
    held = [take(channel, queue) for _ in range(2)]
    publish(channel, queue, b"c", b"d")
    channel.basic_nack(held[-1].method.delivery_tag, multiple=True, requeue=True)
    assert drain(channel, queue) == [b"c", b"d"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_requeue_into_a_queue_that_refuses_drops_nothing(
    channel: BlockingChannel, names: Names, overflow: str
) -> None:
    """T139: it only refuses what is published: what comes back may exceed its length."""
    queue = declare(channel, names, x_max_length=2, x_overflow=overflow)
    publish(channel, queue, b"a", b"b")
    held = [take(channel, queue) for _ in range(2)]
    publish(channel, queue, b"c", b"d")
    channel.basic_nack(held[-1].method.delivery_tag, multiple=True, requeue=True)
    assert drain(channel, queue) == [b"a", b"b", b"c", b"d"]


def test_bytes_are_those_of_bodies(channel: BlockingChannel, names: Names) -> None:
    """T140: headers do not count against max-length-bytes."""
    queue = declare(channel, names, x_max_length_bytes=10)
    for body in (b"aaaa", b"bbbb"):
        publish(channel, queue, body, headers={"large": "x" * 100})
    publish(channel, queue, b"cc")
    publish(channel, queue, b"d")
    assert drain(channel, queue) == [b"bbbb", b"cc", b"d"]


def test_a_message_larger_than_the_queue_empties_it(channel: BlockingChannel, names: Names) -> None:
    """T140: drop-head goes on until it is within the limit, the newcomer included."""
    queue = declare(channel, names, x_max_length_bytes=10)
    publish(channel, queue, b"a", b"x" * 11)
    assert drain(channel, queue) == []


def test_the_smaller_of_two_limits_counts(channel: BlockingChannel, names: Names) -> None:
    """T140: by count and by bytes at once."""
    queue = declare(channel, names, x_max_length=3, x_max_length_bytes=2)
    publish(channel, queue, *FIVE)
    assert drain(channel, queue) == [b"4", b"5"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x_overflow": "spill"}, "invalid_overflow"),
        ({"x_overflow": 1}, "x-overflow"),
        ({"x_max_length": -1}, "{value_negative,-1}"),
        ({"x_max_length": "many"}, "x-max-length"),
        ({"x_max_length_bytes": -1}, "{value_negative,-1}"),
    ],
)
def test_impossible_limits_are_refused(
    channel: BlockingChannel, names: Names, arguments: dict[str, object], text: str
) -> None:
    """T141: 406 at declare."""
    with channel_error(406) as refusal:
        declare(channel, names, **arguments)
    assert text in refusal.text


def test_a_queue_of_length_zero_hands_over_or_drops(channel: BlockingChannel, names: Names) -> None:
    """T138: max-length 0 holds nothing, but a waiting consumer is served."""
    queue = declare(channel, names, x_max_length=0)
    publish(channel, queue, b"nobody")
    assert drain(channel, queue) == []
    inbox = consume(channel, queue, auto_ack=True)
    publish(channel, queue, b"somebody")
    inbox.await_count(1)
    assert inbox.bodies == [b"somebody"]


def test_reject_publish_without_confirms_is_silent(channel: BlockingChannel, names: Names) -> None:
    """T087: the oldest stay, the newest are dropped without a word."""
    queue = declare(channel, names, x_max_length=2, x_overflow="reject-publish")
    publish(channel, queue, *FIVE)
    assert drain(channel, queue) == [b"1", b"2"]
