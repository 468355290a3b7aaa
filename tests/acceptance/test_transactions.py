"""Transactions: publishes and acknowledgements that happen together or not at all."""

from __future__ import annotations

from acceptance.raw_client import Content, RawClient
from live_broker import ConnectRaw, Names


def transactional(raw: ConnectRaw, names: Names) -> tuple[RawClient, str]:
    """A client with a transactional channel 1 and a plain channel 2, and a queue."""
    client, queue = raw(channels=2), names("queue")
    client.call(2, "queue.declare", queue=queue)
    client.call(1, "tx.select")
    return client, queue


def bodies(client: RawClient, channel: int, queue: str) -> list[bytes]:
    found = []
    while (message := client.get(channel, queue)) is not None:
        found.append(message.body)
    return found


def hold_one(client: RawClient, queue: str) -> Content:
    """Put a message into the queue and take it, unacknowledged, on the transactional channel."""
    client.publish(2, b"held", routing_key=queue)
    client.call(2, "queue.declare", queue=queue, passive=True)  # the publish is done
    held = client.get(1, queue, no_ack=False)
    assert held is not None
    return held


def test_publishes_show_at_commit(raw: ConnectRaw, names: Names) -> None:
    """T090: get-empty before commit, the messages in order after it."""
    client, queue = transactional(raw, names)
    for body in (b"one", b"two"):
        client.publish(1, body, routing_key=queue)
    assert bodies(client, 2, queue) == []
    client.call(1, "tx.commit")
    assert bodies(client, 2, queue) == [b"one", b"two"]


def test_publishes_are_dropped_by_rollback(raw: ConnectRaw, names: Names) -> None:
    """T090: what was published since the last commit never arrives."""
    client, queue = transactional(raw, names)
    client.publish(1, b"never", routing_key=queue)
    client.call(1, "tx.rollback")
    client.publish(1, b"later", routing_key=queue)
    client.call(1, "tx.commit")
    assert bodies(client, 2, queue) == [b"later"]


def test_publishes_are_dropped_with_the_channel(raw: ConnectRaw, names: Names) -> None:
    """T090: closing a channel is no commit."""
    client, queue = transactional(raw, names)
    client.publish(1, b"never", routing_key=queue)
    client.call(1, "channel.close", reply_code=200)
    assert bodies(client, 2, queue) == []


def test_rollback_gives_acknowledged_tags_back(raw: ConnectRaw, names: Names) -> None:
    """T091: ack, rollback: the tag is outstanding again and can be acknowledged."""
    client, queue = transactional(raw, names)
    held = hold_one(client, queue)
    client.send(1, "basic.ack", delivery_tag=held.method.delivery_tag)
    client.call(1, "tx.rollback")
    assert client.get(2, queue) is None, "a rollback must not requeue"
    client.send(1, "basic.ack", delivery_tag=held.method.delivery_tag)
    client.call(1, "tx.commit")
    client.call(1, "channel.close", reply_code=200)
    assert client.get(2, queue) is None


def test_acks_count_at_commit(raw: ConnectRaw, names: Names) -> None:
    """T091: acked but not committed when the channel goes: back in the queue."""
    client, queue = transactional(raw, names)
    held = hold_one(client, queue)
    client.send(1, "basic.ack", delivery_tag=held.method.delivery_tag)
    client.call(1, "channel.close", reply_code=200)
    again = client.get(2, queue)
    assert again is not None
    assert again.method.redelivered is True


def test_commit_without_select_is_refused(raw: ConnectRaw) -> None:
    """T092: 406 channel is not transactional, for commit and rollback."""
    client = raw(channels=2)
    for channel, method in ((1, "tx.commit"), (2, "tx.rollback")):
        client.send(channel, method)
        text = client.expect_channel_close(channel, 406).reply_text
        assert text == "PRECONDITION_FAILED - channel is not transactional"


def test_a_rejected_publish_fails_the_commit(raw: ConnectRaw, names: Names) -> None:
    """T087: a full queue with reject-publish inside a transaction: 406 partial tx completion."""
    client, _ = transactional(raw, names)
    full = names("full")
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    client.call(2, "queue.declare", queue=full, arguments=arguments)
    client.publish(1, b"no room", routing_key=full)
    client.send(1, "tx.commit")
    text = client.expect_channel_close(1, 406).reply_text
    assert text == "PRECONDITION_FAILED - partial tx completion"


def test_a_missing_exchange_fails_the_publish_not_the_commit(raw: ConnectRaw, names: Names) -> None:
    """T081: what can be checked at once is checked at once."""
    client, _ = transactional(raw, names)
    client.publish(1, b"", exchange=names("missing"))
    client.expect_channel_close(1, 404)


def test_returns_come_at_commit(raw: ConnectRaw, names: Names) -> None:
    """T079: a mandatory unroutable publish is returned when the transaction commits."""
    client, _ = transactional(raw, names)
    client.publish(1, b"back", exchange="amq.direct", routing_key="nobody", mandatory=True)
    client.expect_silence()
    client.send(1, "tx.commit")
    assert client.expect_content(1, "basic.return").body == b"back"
    client.expect(1, "tx.commit-ok")


def test_a_queue_that_goes_before_the_commit_makes_a_publish_unroutable(
    raw: ConnectRaw, names: Names
) -> None:
    """T079: routable when it was published, not when it is committed: returned with 312."""
    client, queue = transactional(raw, names)
    client.publish(1, b"back", routing_key=queue, mandatory=True)
    client.publish(1, b"dropped", routing_key=queue)
    client.call(2, "queue.delete", queue=queue)
    client.send(1, "tx.commit")
    returned = client.expect_content(1, "basic.return")
    assert (returned.method.reply_code, returned.body) == (312, b"back")
    client.expect(1, "tx.commit-ok")


def test_a_commit_finds_queues_by_the_names_of_the_publish(raw: ConnectRaw, names: Names) -> None:
    """T090: a queue declared anew gets the message, one that was bound since does not."""
    client, queue = transactional(raw, names)
    exchange, late = names("exchange"), names("late")
    client.call(2, "exchange.declare", exchange=exchange, type="fanout")
    client.call(2, "queue.bind", queue=queue, exchange=exchange)
    client.publish(1, b"once", exchange=exchange)
    client.call(1, "basic.qos")  # the publish is done
    client.call(2, "queue.delete", queue=queue)
    for name in (queue, late):
        client.call(2, "queue.declare", queue=name)
    client.call(2, "queue.bind", queue=late, exchange=exchange)
    client.call(1, "tx.commit")
    assert bodies(client, 2, queue) == [b"once"]
    assert bodies(client, 2, late) == []
