"""Prefetch limits and consumer priorities: how much a consumer may hold, and who comes first."""

from __future__ import annotations

from collections import Counter

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import await_together, channel_error, consume, get, publish, settle
from live_broker import ConnectRaw, Names

TEN = [b"%d" % number for number in range(10)]


def filled_queue(channel: BlockingChannel, names: Names) -> str:
    queue = names("queue")
    channel.queue_declare(queue)
    publish(channel, queue, *TEN)
    return queue


def test_a_limit_per_consumer(channel: BlockingChannel, names: Names) -> None:
    """T101: prefetch 2, not global: two consumers hold two each; an ack brings one more."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=2)
    inboxes = [consume(channel, queue) for _ in range(2)]
    await_together(4, *inboxes)
    assert [len(inbox.bodies) for inbox in inboxes] == [2, 2]
    channel.basic_ack(inboxes[1].messages[0].method.delivery_tag)
    await_together(5, *inboxes)
    assert [len(inbox.bodies) for inbox in inboxes] == [2, 3]


def test_a_limit_shared_by_the_channel(channel: BlockingChannel, names: Names) -> None:
    """T102: prefetch 3, global: two consumers hold three together."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    inboxes = [consume(channel, queue) for _ in range(2)]
    await_together(3, *inboxes)
    assert sum(len(inbox.bodies) for inbox in inboxes) == 3
    held = [message for inbox in inboxes for message in inbox.messages]
    channel.basic_ack(max(message.method.delivery_tag for message in held), multiple=True)
    await_together(6, *inboxes)
    assert sum(len(inbox.bodies) for inbox in inboxes) == 6


def test_a_shared_limit_serves_all_queues_of_the_channel(raw: ConnectRaw, names: Names) -> None:
    """T102: prefetch 1, global, three queues with a backlog: none waits for the others."""
    client = raw()
    queues = [names(f"queue-{number}") for number in range(3)]
    client.call(1, "basic.qos", prefetch_count=1, global_=True)
    for queue in queues:
        client.call(1, "queue.declare", queue=queue)
        for _ in range(60):
            client.publish(1, queue.encode(), routing_key=queue)
    for queue in queues:
        client.send(1, "basic.consume", queue=queue, nowait=True)
    served: Counter[bytes] = Counter()
    for _ in range(60):
        delivery = client.expect_content(1, "basic.deliver")
        served[delivery.body] += 1
        client.send(1, "basic.ack", delivery_tag=delivery.method.delivery_tag)
    assert min(served[queue.encode()] for queue in queues) >= 3, served


def test_both_limits_together(channel: BlockingChannel, names: Names) -> None:
    """T102: one per consumer and three for the channel: four consumers hold three."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=1)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    inboxes = [consume(channel, queue) for _ in range(4)]
    await_together(3, *inboxes)
    assert sorted(len(inbox.bodies) for inbox in inboxes) == [0, 1, 1, 1]


def test_a_limit_in_bytes_is_not_implemented(raw: ConnectRaw) -> None:
    """T103: prefetch-size other than 0 ends the connection with 540."""
    client = raw()
    client.send(1, "basic.qos", prefetch_size=10)
    text = client.expect_connection_close(540).reply_text
    assert text == "NOT_IMPLEMENTED - prefetch_size!=0 (10)"


def test_limits_do_not_hold_a_consumer_that_does_not_acknowledge(
    channel: BlockingChannel, names: Names
) -> None:
    """T104: no-ack deliveries are not counted."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=1)
    inbox = consume(channel, queue, auto_ack=True)
    inbox.await_count(len(TEN))
    assert inbox.bodies == TEN


def test_a_new_limit_is_for_new_consumers(channel: BlockingChannel, names: Names) -> None:
    """T105: the consumer that is there keeps the limit it began with."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=1)
    old = consume(channel, queue)
    old.await_count(1)
    channel.basic_qos(prefetch_count=4)
    settle(channel)
    assert len(old.bodies) == 1
    new = consume(channel, queue)
    await_together(5, old, new)
    assert (len(old.bodies), len(new.bodies)) == (1, 4)


def test_get_ignores_limits(channel: BlockingChannel, names: Names) -> None:
    """T106: with prefetch 1 three gets bring three messages."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=1, global_qos=True)
    assert [message.body for _ in range(3) if (message := get(channel, queue))] == TEN[:3]


def test_zero_is_no_limit(channel: BlockingChannel, names: Names) -> None:
    """T101: prefetch 0 lifts the limit for consumers to come."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=1)
    channel.basic_qos(prefetch_count=0)
    consume(channel, queue).await_count(len(TEN))


def test_a_consumer_of_higher_priority_comes_first(channel: BlockingChannel, names: Names) -> None:
    """T110: the lower one gets messages only while the higher one is full."""
    queue = names("queue")
    channel.queue_declare(queue)
    channel.basic_qos(prefetch_count=1)
    low = consume(channel, queue)
    high = consume(channel, queue, arguments={"x-priority": 10})
    publish(channel, queue, b"1")
    high.await_count(1)
    publish(channel, queue, b"2", b"3")
    low.await_count(1)
    settle(channel)
    assert (high.bodies, low.bodies) == ([b"1"], [b"2"])
    channel.basic_ack(high.messages[0].method.delivery_tag)
    high.await_count(2)
    assert high.bodies == [b"1", b"3"]


def test_a_priority_is_a_number(channel: BlockingChannel, names: Names) -> None:
    """T111: x-priority "x" is a 406."""
    queue = names("queue")
    channel.queue_declare(queue)
    with channel_error(406) as refusal:
        consume(channel, queue, arguments={"x-priority": "x"})
    assert "invalid arg 'x-priority'" in refusal.text


@pytest.mark.parametrize("prefetch", [1, 5])
def test_acks_keep_a_limited_consumer_going(
    channel: BlockingChannel, names: Names, prefetch: int
) -> None:
    """T101: whatever the limit, acknowledging one by one drains the queue in order."""
    queue = filled_queue(channel, names)
    channel.basic_qos(prefetch_count=prefetch)
    inbox = consume(channel, queue)
    for position in range(len(TEN)):
        inbox.await_count(position + 1)
        channel.basic_ack(inbox.messages[position].method.delivery_tag)
    assert inbox.bodies == TEN
