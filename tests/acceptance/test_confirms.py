"""Publisher confirms: every publish is answered, once, and after what it promises."""

from __future__ import annotations

import pytest

from acceptance.raw_client import METHOD, ConnectionEnded, RawClient
from acceptance.raw_methods import Method, decode_method
from live_broker import ConnectRaw, Names

BURST = 100


def confirming(raw: ConnectRaw) -> RawClient:
    client = raw()
    client.call(1, "confirm.select")
    return client


def collect_confirms(client: RawClient, count: int) -> list[Method]:
    """Acks and nacks until `count` publishes are answered, checking that none is twice."""
    answers: list[Method] = []
    settled: set[int] = set()
    while len(settled) < count:
        frame = client.receive()
        assert frame.type == METHOD
        answer = decode_method(frame.payload)
        assert answer.name in {"basic.ack", "basic.nack"}, answer
        covered = expand(answer, settled)
        assert covered, f"{answer} confirms nothing new"
        assert not covered & settled
        settled |= covered
        answers.append(answer)
    assert settled == set(range(1, count + 1))
    return answers


def expand(answer: Method, settled: set[int]) -> set[int]:
    if not answer.multiple:
        return {answer.delivery_tag}
    return set(range(1, answer.delivery_tag + 1)) - settled


def declare(client: RawClient, names: Names, **arguments: object) -> str:
    queue = names("queue")
    client.call(1, "queue.declare", queue=queue, arguments=arguments)
    return queue


def test_every_publish_is_acknowledged(raw: ConnectRaw, names: Names) -> None:
    """T082: 100 publishes; numbers 1 to 100 acknowledged, nothing after."""
    client = confirming(raw)
    queue = declare(client, names)
    for _ in range(BURST):
        client.publish(1, b"counted", routing_key=queue)
    answers = collect_confirms(client, BURST)
    assert {answer.name for answer in answers} == {"basic.ack"}
    client.expect_silence()


def test_a_return_comes_before_its_confirm(raw: ConnectRaw) -> None:
    """T083: mandatory and unroutable: basic.return, then basic.ack."""
    client = confirming(raw)
    client.publish(1, b"back", exchange="amq.direct", routing_key="nobody", mandatory=True)
    assert client.expect_content(1, "basic.return").body == b"back"
    assert client.expect(1, "basic.ack").delivery_tag == 1


def test_each_unroutable_publish_has_an_ack_of_its_own(raw: ConnectRaw) -> None:
    """T083: in one write, too, since some clients count frames."""
    client = confirming(raw)
    client.publish_all(1, [b"x"] * BURST, exchange="amq.fanout")
    for number in range(1, BURST + 1):
        ack = client.expect(1, "basic.ack")
        assert (ack.delivery_tag, ack.multiple) == (number, False)


def test_an_unroutable_publish_is_acknowledged_before_the_next_is_returned(raw: ConnectRaw) -> None:
    """T083: two in one write, the second mandatory: ack, return, ack."""
    client = confirming(raw)
    first = client.publish_frames(1, b"x", exchange="amq.fanout")
    client.send_bytes(first + client.publish_frames(1, b"x", exchange="amq.fanout", mandatory=True))
    assert client.expect(1, "basic.ack").delivery_tag == 1
    client.expect_content(1, "basic.return")
    assert client.expect(1, "basic.ack").delivery_tag == 2


def test_multiple_confirms_cover_exactly_what_was_published(raw: ConnectRaw, names: Names) -> None:
    """T084: routed and unroutable mixed; each number is answered once."""
    client = confirming(raw)
    queue = declare(client, names)
    for number in range(BURST):
        client.publish(1, b"mixed", routing_key=queue if number % 3 else "nobody-" + queue)
    collect_confirms(client, BURST)
    client.expect_silence()


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("confirm.select", "tx.select", "cannot switch from confirm to tx mode"),
        ("tx.select", "confirm.select", "cannot switch from tx to confirm mode"),
    ],
)
def test_confirms_and_transactions_exclude_each_other(
    raw: ConnectRaw, first: str, second: str, text: str
) -> None:
    """T085: 406 in both directions."""
    client = raw()
    client.call(1, first)
    client.send(1, second)
    assert client.expect_channel_close(1, 406).reply_text == f"PRECONDITION_FAILED - {text}"


def test_select_may_be_repeated(raw: ConnectRaw, names: Names) -> None:
    """T086: the second select is answered and does not start the count again."""
    client = confirming(raw)
    queue = declare(client, names)
    client.publish(1, b"", routing_key=queue)
    assert client.expect(1, "basic.ack").delivery_tag == 1
    client.call(1, "confirm.select")
    client.publish(1, b"", routing_key=queue)
    assert client.expect(1, "basic.ack").delivery_tag == 2


def test_select_without_waiting_still_confirms(raw: ConnectRaw, names: Names) -> None:
    """T086: no select-ok, but acks come."""
    client = raw()
    queue = declare(client, names)
    client.send(1, "confirm.select", nowait=True)
    client.publish(1, b"", routing_key=queue)
    assert client.expect(1, "basic.ack").delivery_tag == 1


def test_a_full_queue_that_rejects_nacks(raw: ConnectRaw, names: Names) -> None:
    """T087: max-length 1 with reject-publish: the second is nacked and not in the queue."""
    client = confirming(raw)
    queue = declare(client, names, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    client.publish(1, b"first", routing_key=queue)
    assert client.expect(1, "basic.ack").delivery_tag == 1
    client.publish(1, b"second", routing_key=queue)
    assert client.expect(1, "basic.nack").delivery_tag == 2
    first = client.get(1, queue)
    assert first is not None
    assert first.body == b"first"
    assert client.get(1, queue) is None


@pytest.mark.parametrize("limit", [{"x-max-length": 0}, {"x-max-length-bytes": 3}])
def test_a_message_that_a_limit_drops_at_once_is_acknowledged(
    raw: ConnectRaw, names: Names, limit: dict[str, int]
) -> None:
    """A durable queue has no room for a persistent message: it was taken, and dropped."""
    client = confirming(raw)
    queue = names("queue")
    client.call(1, "queue.declare", queue=queue, durable=True, arguments=limit)
    for number in (1, 2):
        client.publish(1, b"dropped", b"\x10\x00\x02", routing_key=queue)
        assert client.expect(1, "basic.ack").delivery_tag == number
    assert client.get(1, queue) is None


def test_one_rejecting_queue_nacks_the_publish(raw: ConnectRaw, names: Names) -> None:
    """T087: a fanout into a full queue and a free one: nacked, yet the free one has it."""
    client = confirming(raw)
    full = declare(client, names, **{"x-max-length": 0, "x-overflow": "reject-publish"})
    free, exchange = names("free"), names("fanout")
    client.call(1, "queue.declare", queue=free)
    client.call(1, "exchange.declare", exchange=exchange, type="fanout")
    for queue in (full, free):
        client.call(1, "queue.bind", queue=queue, exchange=exchange)
    client.publish(1, b"half", exchange=exchange)
    assert client.expect(1, "basic.nack").delivery_tag == 1
    message = client.get(1, free)
    assert message is not None
    assert message.body == b"half"


def test_publishes_to_a_queue_deleted_meanwhile_are_answered(raw: ConnectRaw, names: Names) -> None:
    """T089: publish and delete from two connections at once: every number is answered."""
    publisher, deleter = confirming(raw), raw()
    queue = declare(publisher, names)
    for number in range(BURST):
        publisher.publish(1, b"soon gone", routing_key=queue)
        if number == BURST // 2:
            deleter.send(1, "queue.delete", queue=queue)
    collect_confirms(publisher, BURST)
    deleter.expect(1, "queue.delete-ok")


def test_a_refused_publish_is_not_confirmed(raw: ConnectRaw, names: Names) -> None:
    """T081: the channel closes instead, and the connection lives on."""
    client = confirming(raw)
    client.publish(1, b"", exchange=names("missing"))
    client.expect_channel_close(1, 404)
    try:
        client.expect_silence()
    except ConnectionEnded:
        pytest.fail("a channel error must not end the connection")
