"""Consumers and acknowledgements: who gets what, in which order, and what comes back."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import (
    channel_error,
    connection_error,
    consume,
    drain,
    eventually,
    get,
    publish,
    ready_count,
    settle,
    take,
)
from acceptance.raw_client import Login
from live_broker import Connect, ConnectRaw, Names

LETTERS = (b"A", b"B", b"C")


def filled_queue(channel: BlockingChannel, names: Names, *bodies: bytes) -> str:
    queue = names("queue")
    channel.queue_declare(queue)
    publish(channel, queue, *bodies)
    return queue


def test_an_unknown_tag_cannot_be_acknowledged(channel: BlockingChannel) -> None:
    """T093: 406 unknown delivery tag 99."""
    channel.basic_ack(99)
    with channel_error(406) as refusal:
        channel.basic_qos(prefetch_count=1)
    assert refusal.text == "PRECONDITION_FAILED - unknown delivery tag 99"


@pytest.mark.parametrize("settle_again", ["basic_ack", "basic_reject", "basic_nack"])
def test_a_tag_is_settled_once(channel: BlockingChannel, names: Names, settle_again: str) -> None:
    """T094: the second time is a 406, whichever way."""
    queue = filled_queue(channel, names, b"once")
    tag = take(channel, queue).method.delivery_tag
    channel.basic_ack(tag)
    getattr(channel, settle_again)(tag)
    with channel_error(406) as refusal:
        channel.basic_qos(prefetch_count=1)
    assert refusal.text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_multiple_zero_settles_everything(channel: BlockingChannel, names: Names) -> None:
    """T095: ack multiple of tag 0: all; and with nothing outstanding it is fine."""
    queue = filled_queue(channel, names, *LETTERS)
    for _ in LETTERS:
        take(channel, queue)
    channel.basic_ack(0, multiple=True)
    channel.basic_ack(0, multiple=True)
    channel.basic_recover(requeue=True)
    assert drain(channel, queue) == []


def test_multiple_settles_up_to_the_tag(channel: BlockingChannel, names: Names) -> None:
    """T095: later tags stay outstanding."""
    queue = filled_queue(channel, names, *LETTERS)
    tags = [take(channel, queue).method.delivery_tag for _ in LETTERS]
    channel.basic_ack(tags[1], multiple=True)
    channel.basic_recover(requeue=True)
    assert drain(channel, queue) == [b"C"]


def test_requeued_messages_keep_their_order(channel: BlockingChannel, names: Names) -> None:
    """T096: nack multiple with requeue: same order, marked as redelivered."""
    queue = filled_queue(channel, names, *LETTERS, b"D")
    tags = [take(channel, queue).method.delivery_tag for _ in LETTERS]
    channel.basic_nack(tags[-1], multiple=True, requeue=True)
    again = [take(channel, queue) for _ in range(4)]
    assert [message.body for message in again] == [*LETTERS, b"D"]
    assert [message.method.redelivered for message in again] == [True, True, True, False]


def test_a_rejected_message_is_dropped(channel: BlockingChannel, names: Names) -> None:
    """T097: reject without requeue and without a dead letter exchange."""
    queue = filled_queue(channel, names, *LETTERS)
    channel.basic_reject(take(channel, queue).method.delivery_tag, requeue=False)
    assert drain(channel, queue) == [b"B", b"C"]


def test_a_requeued_message_returns_to_its_place(channel: BlockingChannel, names: Names) -> None:
    """T098: get A, B and C of four, nack B: the next get is B, then D."""
    queue = filled_queue(channel, names, *LETTERS, b"D")
    tags = [take(channel, queue).method.delivery_tag for _ in LETTERS]
    channel.basic_nack(tags[1], requeue=True)
    assert drain(channel, queue) == [b"B", b"D"]


def test_a_closing_channel_gives_its_messages_back(connect: Connect, names: Names) -> None:
    """T099: unacknowledged messages are requeued in order and marked."""
    connection = connect()
    holder, other = connection.channel(), connection.channel()
    queue = filled_queue(holder, names, *LETTERS)
    for _ in LETTERS:
        take(holder, queue)
    holder.close()
    again = [take(other, queue) for _ in LETTERS]
    assert [message.body for message in again] == list(LETTERS)
    assert all(message.method.redelivered for message in again)


def test_a_dropped_connection_gives_its_messages_back(
    raw: ConnectRaw, channel: BlockingChannel, names: Names
) -> None:
    """T099: a client that vanishes loses nothing but its turn."""
    queue = filled_queue(channel, names, b"held")
    client = raw()
    assert client.get(1, queue, no_ack=False) is not None
    client.drop()
    assert take(channel, queue).method.redelivered is True


def test_recover_requeues(channel: BlockingChannel, names: Names) -> None:
    """T100: recover with requeue gives back all that is unacknowledged."""
    queue = filled_queue(channel, names, *LETTERS)
    for _ in LETTERS:
        take(channel, queue)
    channel.basic_recover(requeue=True)
    again = [take(channel, queue) for _ in LETTERS]
    assert [message.body for message in again] == list(LETTERS)
    assert all(message.method.redelivered for message in again)


def test_recover_without_requeue_is_not_implemented(raw: ConnectRaw) -> None:
    """T100: 540 ends the connection."""
    client = raw()
    client.send(1, "basic.recover", requeue=False)
    assert client.expect_connection_close(540).reply_text == "NOT_IMPLEMENTED - requeue=false"


def test_a_consumer_tag_is_used_once(raw: ConnectRaw, names: Names) -> None:
    """T107: reuse on the same channel ends the connection with 530."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    client.send(1, "basic.consume", queue=queue, consumer_tag="mine")
    text = client.expect_connection_close(530).reply_text
    assert text == "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"


def test_a_tag_may_be_used_on_two_channels(raw: ConnectRaw, names: Names) -> None:
    """T107: tags belong to the channel."""
    client, queue = raw(channels=2), names("queue")
    client.call(1, "queue.declare", queue=queue)
    for channel in (1, 2):
        tag = client.call(channel, "basic.consume", queue=queue, consumer_tag="mine").consumer_tag
        assert tag == "mine"


def test_the_broker_names_a_nameless_consumer(raw: ConnectRaw, names: Names) -> None:
    """T107: amq.ctag- and 22 letters."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    tag = client.call(1, "basic.consume", queue=queue).consumer_tag
    assert tag.startswith("amq.ctag-")
    assert len(tag) == len("amq.ctag-") + 22


def test_a_missing_queue_cannot_be_consumed(channel: BlockingChannel, names: Names) -> None:
    """T108: 404."""
    queue = names("missing")
    with channel_error(404) as refusal:
        consume(channel, queue)
    assert refusal.text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_consumer_is_alone(
    connect: Connect, names: Names, first: bool, second: bool
) -> None:
    """T109: 403 in exclusive use, for a second consumer or an exclusive latecomer."""
    connection = connect()
    channel = connection.channel()
    queue = filled_queue(channel, names)
    consume(channel, queue, exclusive=first)
    with channel_error(403) as refusal:
        consume(connection.channel(), queue, exclusive=second)
    assert refusal.text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"


def test_messages_go_round_the_consumers(channel: BlockingChannel, names: Names) -> None:
    """T112: nine messages, three consumers: three each, in turn."""
    queue = filled_queue(channel, names)
    inboxes = [consume(channel, queue) for _ in range(3)]
    publish(channel, queue, *[b"%d" % number for number in range(9)])
    for inbox in inboxes:
        inbox.await_count(3)
    assert sorted(inbox.bodies for inbox in inboxes) == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


def test_cancelling_does_not_requeue(raw: ConnectRaw, names: Names) -> None:
    """T113: what a cancelled consumer holds is still held and can be acknowledged."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, b"held", routing_key=queue)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    held = client.expect_content(1, "basic.deliver")
    assert client.call(1, "basic.cancel", consumer_tag="mine").consumer_tag == "mine"
    assert client.get(1, queue) is None
    client.send(1, "basic.ack", delivery_tag=held.method.delivery_tag)
    client.call(1, "basic.recover", requeue=True)
    assert client.get(1, queue) is None


def test_nothing_is_delivered_after_cancel_ok(raw: ConnectRaw, names: Names) -> None:
    """T114: messages that come later wait in the queue."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine", no_ack=True)
    client.call(1, "basic.cancel", consumer_tag="mine")
    client.publish(1, b"waits", routing_key=queue)
    client.expect_silence()
    message = client.get(1, queue)
    assert message is not None
    assert message.body == b"waits"


def test_cancelling_nobody_is_fine(raw: ConnectRaw) -> None:
    """T115: an unknown tag gets its cancel-ok."""
    assert raw().call(1, "basic.cancel", consumer_tag="nobody").consumer_tag == "nobody"


def test_consumers_hear_that_their_queue_went(raw: ConnectRaw, names: Names) -> None:
    """T116: basic.cancel to a client that can take it, nothing to one that cannot."""
    queue = names("queue")
    capable, incapable, deleter = raw(), raw(Login(capabilities=())), raw()
    deleter.call(1, "queue.declare", queue=queue)
    for client in (capable, incapable):
        client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    deleter.call(1, "queue.delete", queue=queue)
    cancel = capable.expect(1, "basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("mine", True)
    incapable.expect_silence()


def test_a_deleter_reads_its_answer_before_the_news(raw: ConnectRaw, names: Names) -> None:
    """T116: on the channel that deletes, delete-ok comes before basic.cancel of its consumer."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
    client.call(1, "queue.delete", queue=queue)
    assert client.expect(1, "basic.cancel").consumer_tag == "mine"


def test_a_single_active_consumer_is_served_alone(channel: BlockingChannel, names: Names) -> None:
    """T117: of three only the first gets messages; when it goes, the next takes over."""
    queue = names("single")
    channel.queue_declare(queue, arguments={"x-single-active-consumer": True})
    first, second, third = (consume(channel, queue, auto_ack=True) for _ in range(3))
    publish(channel, queue, b"1", b"2", b"3")
    first.await_count(3)
    channel.basic_cancel(first.tag)
    publish(channel, queue, b"4", b"5")
    second.await_count(2)
    settle(channel)
    assert (first.bodies, second.bodies) == ([b"1", b"2", b"3"], [b"4", b"5"])
    assert third.bodies == []


def test_a_single_active_queue_has_no_exclusive_consumers(
    channel: BlockingChannel, names: Names
) -> None:
    """T118: exclusive on it is a 403."""
    queue = names("single")
    channel.queue_declare(queue, arguments={"x-single-active-consumer": True})
    with channel_error(403):
        consume(channel, queue, exclusive=True)


def test_get_tells_how_many_are_left(channel: BlockingChannel, names: Names) -> None:
    """T106: message-count of get-ok is what is still ready."""
    queue = filled_queue(channel, names, *LETTERS)
    assert [take(channel, queue).method.message_count for _ in LETTERS] == [2, 1, 0]
    assert get(channel, queue) is None


def test_the_first_delivery_follows_consume_ok(raw: ConnectRaw, names: Names) -> None:
    """T114: even with a full queue."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    for body in LETTERS:
        client.publish(1, body, routing_key=queue)
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    assert [client.expect_content(1, "basic.deliver").body for _ in LETTERS] == list(LETTERS)


def test_no_ack_leaves_nothing_to_settle(channel: BlockingChannel, names: Names) -> None:
    """T093: the tag of a no-ack delivery is unknown."""
    queue = filled_queue(channel, names, b"gone")
    message = get(channel, queue, auto_ack=True)
    assert message is not None
    channel.basic_ack(message.method.delivery_tag)
    with channel_error(406):
        channel.basic_qos(prefetch_count=1)


def test_an_active_consumers_channel_close_wakes_the_next(connect: Connect, names: Names) -> None:
    """T117: the hand-over happens on channel end too, with the unacknowledged messages."""
    queue, connection = names("single"), connect()
    holder, heir = connection.channel(), connection.channel()
    holder.queue_declare(queue, arguments={"x-single-active-consumer": True})
    first = consume(holder, queue)
    second = consume(heir, queue)
    publish(heir, queue, b"inherited")
    first.await_count(1)
    holder.close()
    second.await_count(1)
    assert second.messages[0].method.redelivered is True
    eventually(lambda: ready_count(heir, queue) == 0)


def test_tag_reuse_ends_only_the_one_connection(connect: Connect, names: Names) -> None:
    """T107: a hard error is the end of one connection, not of its neighbours."""
    bystander = connect().channel()
    queue = filled_queue(bystander, names, b"still here")
    channel = connect().channel()
    with connection_error(540):
        channel.basic_qos(prefetch_size=1)
    assert drain(bystander, queue) == [b"still here"]
