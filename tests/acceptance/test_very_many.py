"""Very many of something in one method: a client notices nothing of the slices it is done in."""

from __future__ import annotations

import pytest

from acceptance.raw_client import RawClient
from acceptance.test_confirms import collect_confirms
from live_broker import ConnectRaw, Names

QUEUES = 300
MESSAGES = 3_000
PERSISTENT = b"\x10\x00\x02"
WAIT_S = 30.0


def bound_queues(client: RawClient, names: Names) -> tuple[str, list[str]]:
    exchange = names("wide")
    client.call(1, "exchange.declare", exchange=exchange, type="fanout")
    queues = [names(f"q{number}") for number in range(QUEUES)]
    for queue in queues:
        client.call(1, "queue.declare", queue=queue)
        client.call(1, "queue.bind", queue=queue, exchange=exchange)
    return exchange, queues


def filled(client: RawClient, names: Names) -> str:
    queue = names("large")
    client.call(1, "queue.declare", queue=queue, durable=True)
    for number in range(MESSAGES):
        client.publish(1, b"%d" % number, PERSISTENT, routing_key=queue)
    return queue


def held(client: RawClient, names: Names) -> str:
    """Have a queue whose messages are all unacknowledged on the client's channel."""
    queue = filled(client, names)
    client.call(1, "basic.consume", queue=queue, consumer_tag="it")
    for number in range(MESSAGES):
        content = client.expect_content(1, "basic.deliver", WAIT_S)
        assert content.body == b"%d" % number
    client.call(1, "basic.cancel", consumer_tag="it")
    return queue


def ready(client: RawClient, queue: str) -> int:
    answer = client.call(1, "queue.declare", queue=queue, passive=True)
    return int(answer.message_count)


def taken_in_order(client: RawClient, queue: str) -> bool:
    """Take everything; True if it came in order and marked as redelivered."""
    for number in range(MESSAGES):
        content = client.get(1, queue)
        if content is None or content.body != b"%d" % number or not content.method.redelivered:
            return False
    return client.get(1, queue) is None


def test_a_publish_to_many_queues_is_confirmed_once_and_not_overtaken(
    raw: ConnectRaw, names: Names
) -> None:
    client = raw()
    exchange, queues = bound_queues(client, names)
    client.call(1, "confirm.select")
    client.publish(1, b"wide", exchange=exchange)
    client.publish(1, b"after", routing_key=queues[-1])
    client.publish(1, b"wide too", exchange=exchange)
    collect_confirms(client, 3)
    client.expect_silence()
    for queue in queues:
        bodies = [b"wide", b"wide too"]
        if queue == queues[-1]:
            bodies.insert(1, b"after")
        contents = [client.get(1, queue) for _ in bodies]
        assert [content and content.body for content in contents] == bodies


@pytest.mark.parametrize("requeue", [True, False])
def test_a_nack_of_many_settles_all_before_what_comes_after_it(
    raw: ConnectRaw, names: Names, requeue: bool
) -> None:
    client = raw()
    queue = held(client, names)
    client.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=requeue)
    assert ready(client, queue) == (MESSAGES if requeue else 0)
    assert not requeue or taken_in_order(client, queue)


def test_an_ack_of_many_settles_all_before_what_comes_after_it(
    raw: ConnectRaw, names: Names
) -> None:
    client = raw()
    queue = held(client, names)
    client.send(1, "basic.ack", delivery_tag=MESSAGES, multiple=True)
    client.call(1, "basic.recover", requeue=True)
    assert ready(client, queue) == 0


def test_a_channel_that_is_closed_gives_back_all_before_what_comes_after_it(
    raw: ConnectRaw, names: Names
) -> None:
    client = raw(channels=2)
    queue = held(client, names)
    client.call(1, "channel.close", reply_code=200, reply_text="done")
    client.call(1, "channel.open")
    assert taken_in_order(client, queue)


def test_a_purge_of_many_tells_how_many_and_leaves_what_comes_after_it(
    raw: ConnectRaw, names: Names
) -> None:
    client = raw()
    queue = filled(client, names)
    assert ready(client, queue) == MESSAGES
    client.send(1, "queue.purge", queue=queue)
    client.publish(1, b"later", routing_key=queue)
    assert client.expect(1, "queue.purge-ok", WAIT_S).message_count == MESSAGES
    assert ready(client, queue) == 1
