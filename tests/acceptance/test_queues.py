"""Declaring, deleting, purging and losing queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import (
    channel_error,
    consume,
    drain,
    eventually,
    get,
    is_there,
    publish,
    ready_count,
    settle,
    take,
)
from acceptance.raw_methods import Typed
from live_broker import Connect, ConnectRaw, Names

LEASE_S = 2
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. "
    "It could be originally declared on another connection or the exclusive property value "
    "does not match that of the original declaration."
)


def test_declaring_again_reports_what_is_there(channel: BlockingChannel, names: Names) -> None:
    """T036: the same declaration twice is fine and counts messages and consumers."""
    queue = names("queue")
    first = channel.queue_declare(queue).method
    assert (first.queue, first.message_count, first.consumer_count) == (queue, 0, 0)
    publish(channel, queue, b"one", b"two")
    eventually(lambda: ready_count(channel, queue) == 2)
    again = channel.queue_declare(queue).method
    assert (again.message_count, again.consumer_count) == (2, 0)
    consume(channel, queue)
    assert channel.queue_declare(queue).method.consumer_count == 1


def test_durability_cannot_be_changed(channel: BlockingChannel, names: Names) -> None:
    """T037: durable, then not: 406 names the argument and both values."""
    queue = names("queue")
    channel.queue_declare(queue, durable=True)
    with channel_error(406) as refusal:
        channel.queue_declare(queue, durable=False)
    assert refusal.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in vhost '/': "
        "received 'false' but current is 'true'"
    )


def test_an_argument_cannot_be_changed(channel: BlockingChannel, names: Names) -> None:
    """T038: x-message-ttl 1000, then 2000: 406."""
    queue = names("queue")
    channel.queue_declare(queue, arguments={"x-message-ttl": 1000})
    with channel_error(406) as refusal:
        channel.queue_declare(queue, arguments={"x-message-ttl": 2000})
    assert f"inequivalent arg 'x-message-ttl' for queue '{queue}'" in refusal.text


def test_an_argument_cannot_be_added(channel: BlockingChannel, names: Names) -> None:
    """T038: the text says that there was none."""
    queue = names("queue")
    channel.queue_declare(queue)
    with channel_error(406) as refusal:
        channel.queue_declare(queue, arguments={"x-max-length": 5})
    assert "received the value '5' of type 'signedint' but current is none" in refusal.text


def test_the_width_of_an_integer_does_not_matter(raw: ConnectRaw, names: Names) -> None:
    """T039: the same TTL as 32 and as 64 bits is the same TTL."""
    client, queue = raw(), names("queue")
    for letter in ("I", "l", "s"):
        arguments = {"x-message-ttl": Typed(letter, 1000)}
        assert client.call(1, "queue.declare", queue=queue, arguments=arguments).queue == queue


def test_unknown_arguments_are_not_compared(channel: BlockingChannel, names: Names) -> None:
    """T040: "foo" may differ."""
    queue = names("queue")
    for value in ("one", 2):
        assert channel.queue_declare(queue, arguments={"foo": value}).method.queue == queue


def test_the_broker_names_a_nameless_queue(raw: ConnectRaw) -> None:
    """T041: amq.gen- and 22 letters; an empty name then means that queue."""
    client = raw()
    queue = client.call(1, "queue.declare", exclusive=True).queue
    assert queue.startswith("amq.gen-")
    assert len(queue) == len("amq.gen-") + 22
    client.call(1, "queue.bind", exchange="amq.direct", routing_key="key")
    client.publish(1, b"found", exchange="amq.direct", routing_key="key")
    message = client.get(1, "")
    assert message is not None
    assert message.body == b"found"


def test_an_empty_name_needs_a_queue_declared_before(raw: ConnectRaw) -> None:
    """T041: without one, 404 no previously declared queue."""
    client = raw()
    client.send(1, "basic.get")
    text = client.expect_channel_close(1, 404).reply_text
    assert text == "NOT_FOUND - no previously declared queue"


def test_the_prefix_amq_is_reserved(channel: BlockingChannel) -> None:
    """T042: a client may not create amq.something."""
    with channel_error(403) as refusal:
        channel.queue_declare("amq.q")
    assert refusal.text == ("ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'")


def test_a_passive_declare_of_nothing_is_not_found(channel: BlockingChannel, names: Names) -> None:
    """T043: 404 names the queue and the vhost."""
    queue = names("missing")
    with channel_error(404) as refusal:
        channel.queue_declare(queue, passive=True)
    assert refusal.text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"


Operation = Callable[[BlockingChannel, str], Any]


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(lambda c, q: c.queue_declare(q, passive=True), id="T044-passive-declare"),
        pytest.param(lambda c, q: c.queue_declare(q), id="declare"),
        pytest.param(lambda c, q: c.queue_bind(q, "amq.fanout"), id="bind"),
        pytest.param(consume, id="consume"),
        pytest.param(get, id="get"),
        pytest.param(lambda c, q: c.queue_purge(q), id="purge"),
        pytest.param(lambda c, q: c.queue_delete(q), id="delete"),
    ],
)
def test_an_exclusive_queue_is_locked_for_others(
    connect: Connect, names: Names, operation: Operation
) -> None:
    """T044, T045: every operation of another connection gets 405."""
    queue = names("exclusive")
    connect().channel().queue_declare(queue, exclusive=True)
    with channel_error(405) as refusal:
        operation(connect().channel(), queue)
    assert refusal.text.startswith(LOCKED.format(queue=queue)[:200])


def test_an_exclusive_queue_dies_with_its_connection(connect: Connect, names: Names) -> None:
    """T046: the owner closes; 404 for everyone."""
    queue, owner = names("exclusive"), connect()
    owner.channel().queue_declare(queue, exclusive=True)
    owner.close()
    assert not is_there(connect(), queue)


def test_an_exclusive_queue_outlives_the_channel_that_made_it(
    connect: Connect, names: Names
) -> None:
    """T046: it belongs to the connection."""
    queue, owner = names("exclusive"), connect()
    channel = owner.channel()
    channel.queue_declare(queue, exclusive=True)
    channel.close()
    assert is_there(owner, queue)


def test_an_auto_delete_queue_goes_with_its_last_consumer(connect: Connect, names: Names) -> None:
    """T047: consume, cancel, gone."""
    queue, connection = names("auto-delete"), connect()
    channel = connection.channel()
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_cancel(consume(channel, queue).tag)
    assert not is_there(connection, queue)


def test_an_auto_delete_queue_goes_with_its_last_consumers_channel(
    connect: Connect, names: Names
) -> None:
    """T047: closing the channel counts as cancelling, before close-ok is sent."""
    queue, connection = names("auto-delete"), connect()
    channel = connection.channel()
    channel.queue_declare(queue, auto_delete=True)
    consume(channel, queue)
    channel.close()
    assert not is_there(connection, queue)


def test_an_auto_delete_queue_never_consumed_stays(channel: BlockingChannel, names: Names) -> None:
    """T048: neither time nor basic.get removes it."""
    queue = names("auto-delete")
    channel.queue_declare(queue, auto_delete=True)
    publish(channel, queue, b"one")
    assert drain(channel, queue) == [b"one"]
    assert is_there(channel.connection, queue)


def test_an_idle_queue_expires(connect: Connect, names: Names) -> None:
    """T049: x-expires 200 without use: gone."""
    queue, connection = names("expiring"), connect()
    connection.channel().queue_declare(queue, arguments={"x-expires": 200})
    eventually(lambda: not is_there(connection, queue), pause_s=0.5)  # a look renews the lease


def test_a_queue_in_use_does_not_expire(channel: BlockingChannel, names: Names) -> None:
    """T049: gets keep a queue for longer than its x-expires, then it goes."""
    queue = names("expiring")
    channel.queue_declare(queue, arguments={"x-expires": LEASE_S * 1_000})
    for _ in range(12):
        time.sleep(LEASE_S / 10)
        assert get(channel, queue) is None
    eventually(lambda: not is_there(channel.connection, queue), pause_s=1.5 * LEASE_S)


def test_a_consumer_keeps_a_queue_from_expiring(channel: BlockingChannel, names: Names) -> None:
    """T049: with a consumer the lease does not run."""
    queue = names("expiring")
    channel.queue_declare(queue, arguments={"x-expires": LEASE_S * 1_000})
    consume(channel, queue)
    settle(channel, 1.5 * LEASE_S)
    assert is_there(channel.connection, queue)


@pytest.mark.parametrize("value", [0, -1, "x"])
def test_an_impossible_lease_is_refused(
    channel: BlockingChannel, names: Names, value: object
) -> None:
    """T050: x-expires must be a positive integer."""
    with channel_error(406) as refusal:
        channel.queue_declare(names("expiring"), arguments={"x-expires": value})
    assert "invalid arg 'x-expires' for queue" in refusal.text


def test_if_empty_protects_messages(channel: BlockingChannel, names: Names) -> None:
    """T051: a queue with a message is not deleted with if-empty."""
    queue = names("queue")
    channel.queue_declare(queue)
    publish(channel, queue, b"one")
    with channel_error(406) as refusal:
        channel.queue_delete(queue, if_empty=True)
    assert refusal.text == f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"


def test_if_unused_protects_consumers(connect: Connect, names: Names) -> None:
    """T052: a queue with a consumer is not deleted with if-unused."""
    queue, connection = names("queue"), connect()
    channel = connection.channel()
    channel.queue_declare(queue)
    consume(channel, queue)
    with channel_error(406) as refusal:
        connection.channel().queue_delete(queue, if_unused=True)
    assert refusal.text == f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"


def test_a_delete_tells_how_many_messages_went(channel: BlockingChannel, names: Names) -> None:
    """T053: the count is that of ready messages."""
    queue = names("queue")
    channel.queue_declare(queue)
    publish(channel, queue, b"one", b"two", b"three")
    take(channel, queue)
    assert channel.queue_delete(queue).method.message_count == 2


def test_deleting_nothing_is_fine(channel: BlockingChannel, names: Names) -> None:
    """T053: delete-ok with 0."""
    assert channel.queue_delete(names("missing")).method.message_count == 0


def test_a_purge_takes_ready_messages_only(channel: BlockingChannel, names: Names) -> None:
    """T054: 2 unacknowledged and 5 ready: 5 go, and the 2 can still be acknowledged."""
    queue = names("queue")
    channel.queue_declare(queue)
    publish(channel, queue, *[b"%d" % number for number in range(7)])
    held = [take(channel, queue) for _ in range(2)]
    assert channel.queue_purge(queue).method.message_count == 5
    channel.basic_ack(held[0].method.delivery_tag)
    channel.basic_nack(held[1].method.delivery_tag, requeue=True)
    assert drain(channel, queue) == [b"1"]


def test_purging_nothing_is_not_found(channel: BlockingChannel, names: Names) -> None:
    """T054: unlike a delete, a purge needs its queue."""
    with channel_error(404):
        channel.queue_purge(names("missing"))


def test_counts_settle_to_what_is_ready(channel: BlockingChannel, names: Names) -> None:
    """T036: message-count of a passive declare leaves out what is unacknowledged."""
    queue = names("queue")
    channel.queue_declare(queue)
    publish(channel, queue, b"one", b"two")
    take(channel, queue)
    eventually(lambda: ready_count(channel, queue) == 1)
