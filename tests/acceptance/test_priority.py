"""Priority queues."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error, consume, drain, publish, ready_count, take
from live_broker import Names


def declare(channel: BlockingChannel, names: Names, **arguments: object) -> str:
    queue = names("queue")
    dashed = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, arguments=dashed)
    return queue


def publish_priorities(channel: BlockingChannel, queue: str, *priorities: int) -> None:
    """Bodies say the priority and a running number."""
    for number, priority in enumerate(priorities):
        publish(channel, queue, b"%d/%d" % (priority, number), priority=priority)


def test_higher_priorities_come_first(channel: BlockingChannel, names: Names) -> None:
    """T143: 1, 5, 3 published: 5, 3, 1 delivered."""
    queue = declare(channel, names, x_max_priority=10)
    publish_priorities(channel, queue, 1, 5, 3)
    assert drain(channel, queue) == [b"5/1", b"3/2", b"1/0"]


def test_a_priority_is_first_in_first_out(channel: BlockingChannel, names: Names) -> None:
    """T143: and a message without one has priority 0."""
    queue = declare(channel, names, x_max_priority=10)
    publish_priorities(channel, queue, 1, 2, 1, 2)
    publish(channel, queue, b"none")
    publish_priorities(channel, queue, 0)
    assert drain(channel, queue) == [b"2/1", b"2/3", b"1/0", b"1/2", b"none", b"0/0"]


def test_a_priority_beyond_the_maximum_is_the_maximum(
    channel: BlockingChannel, names: Names
) -> None:
    """T144: with a maximum of 5, 9 is 5."""
    queue = declare(channel, names, x_max_priority=5)
    publish_priorities(channel, queue, 5, 9, 5, 4)
    assert drain(channel, queue) == [b"5/0", b"9/1", b"5/2", b"4/3"]


@pytest.mark.parametrize(
    ("value", "text"), [(256, "{max_value_exceeded,256}"), (-1, "{value_negative,-1}")]
)
def test_an_impossible_maximum_is_refused(
    channel: BlockingChannel, names: Names, value: int, text: str
) -> None:
    """T145: 0 to 255, else 406."""
    with channel_error(406) as refusal:
        declare(channel, names, x_max_priority=value)
    assert text in refusal.text


def test_a_requeued_message_keeps_its_priority(channel: BlockingChannel, names: Names) -> None:
    """T143: given back, it is first of its priority again."""
    queue = declare(channel, names, x_max_priority=5)
    publish_priorities(channel, queue, 2, 2, 1)
    channel.basic_nack(take(channel, queue).method.delivery_tag, requeue=True)
    publish(channel, queue, b"high", priority=4)
    assert drain(channel, queue) == [b"high", b"2/0", b"2/1", b"1/2"]


def test_a_full_priority_queue_drops_from_the_highest(
    channel: BlockingChannel, names: Names
) -> None:
    """T138: drop-head means the head, and the head is the oldest of the highest priority."""
    queue = declare(channel, names, x_max_priority=5, x_max_length=2)
    publish_priorities(channel, queue, 3, 1, 3)
    assert drain(channel, queue) == [b"3/2", b"1/1"]


def test_without_a_maximum_priorities_mean_nothing(channel: BlockingChannel, names: Names) -> None:
    """T143: an ordinary queue delivers in order."""
    queue = declare(channel, names)
    publish_priorities(channel, queue, 1, 5)
    assert drain(channel, queue) == [b"1/0", b"5/1"]


def test_counts_cover_all_priorities(channel: BlockingChannel, names: Names) -> None:
    """T143: a purge and a count see the whole queue, and a consumer gets it in order."""
    queue = declare(channel, names, x_max_priority=5)
    publish_priorities(channel, queue, 1, 2, 3)
    assert take(channel, queue).method.message_count == 2
    channel.basic_recover(requeue=True)
    inbox = consume(channel, queue, auto_ack=True)
    inbox.await_count(3)
    assert inbox.bodies == [b"3/2", b"2/1", b"1/0"]
    assert ready_count(channel, queue) == 0
