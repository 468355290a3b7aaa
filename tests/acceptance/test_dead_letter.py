"""Dead letters: what is put where when a queue gives up on a message, and what is written on it."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import (
    Message,
    channel_error,
    drain,
    eventually,
    is_there,
    publish,
    ready_count,
    settle,
    take,
)
from acceptance.raw_client import encode_properties
from acceptance.raw_methods import Typed
from live_broker import ConnectRaw, Names


def declare_pair(channel: BlockingChannel, names: Names, **arguments: Any) -> tuple[str, str]:
    """A queue, and the one its dead letters go to through the default exchange."""
    queue, graveyard = names("queue"), names("graveyard")
    dashed = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(graveyard)
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard}
    channel.queue_declare(queue, arguments={**dead_letters, **dashed})
    return queue, graveyard


def reject_one(channel: BlockingChannel, queue: str) -> None:
    channel.basic_nack(take(channel, queue).method.delivery_tag, requeue=False)


def deaths(message: Message) -> list[dict[str, Any]]:
    headers = message.properties.headers
    assert headers is not None
    assert isinstance(headers["x-death"], list)
    return list(headers["x-death"])


@pytest.mark.parametrize("how", ["basic_nack", "basic_reject"])
def test_a_rejected_message_is_dead_lettered(
    channel: BlockingChannel, names: Names, how: str
) -> None:
    """T125: x-death says where, why, when and how often."""
    queue, graveyard = declare_pair(channel, names)
    publish(channel, queue, b"dead", message_id="m-1", headers={"mine": 1})
    getattr(channel, how)(take(channel, queue).method.delivery_tag, requeue=False)
    message = take(channel, graveyard)
    (death,) = deaths(message)
    assert abs(death.pop("time").timestamp() - time.time()) < 60 * 60 * 24
    assert death == {
        "count": 1, "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": [queue],
    }  # fmt: skip
    assert (message.body, message.properties.message_id) == (b"dead", "m-1")
    assert message.properties.headers["mine"] == 1
    assert (message.method.exchange, message.method.routing_key) == ("", graveyard)


def test_the_types_in_x_death_are_those_of_rabbitmq(raw: ConnectRaw, names: Names) -> None:
    """T125: count is a long, time a timestamp, the names long strings."""
    client, queue, graveyard = raw(), names("queue"), names("graveyard")
    client.call(1, "queue.declare", queue=graveyard)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard}
    client.call(1, "queue.declare", queue=queue, arguments=arguments)
    client.publish(1, b"dead", routing_key=queue)
    held = client.get(1, queue, no_ack=False)
    assert held is not None
    client.send(1, "basic.reject", delivery_tag=held.method.delivery_tag)
    client.call(1, "basic.consume", queue=graveyard, no_ack=True)
    headers = client.expect_content(1, "basic.deliver").properties["headers"]
    (death,) = headers["x-death"].value
    letters = {name: field.letter for name, field in death.value.items()}
    assert letters == {
        "count": "l", "reason": "S", "queue": "S", "time": "T", "exchange": "S",
        "routing-keys": "A",
    }  # fmt: skip
    assert headers["x-first-death-queue"] == Typed("S", queue.encode())


def test_an_expired_message_is_dead_lettered(channel: BlockingChannel, names: Names) -> None:
    """T126: expiration goes, so that it does not die again, and is kept in x-death."""
    queue, graveyard = declare_pair(channel, names)
    publish(channel, queue, b"dead", expiration="20")
    message = take(channel, graveyard)
    (death,) = deaths(message)
    assert (death["reason"], death["original-expiration"]) == ("expired", "20")
    assert message.properties.expiration is None


def test_a_queue_ttl_leaves_no_original_expiration(channel: BlockingChannel, names: Names) -> None:
    """T126: there was none."""
    queue, graveyard = declare_pair(channel, names, x_message_ttl=20)
    publish(channel, queue, b"dead")
    (death,) = deaths(take(channel, graveyard))
    assert death["reason"] == "expired"
    assert "original-expiration" not in death


def test_what_a_full_queue_drops_is_dead_lettered(channel: BlockingChannel, names: Names) -> None:
    """T127: oldest first, reason maxlen."""
    queue, graveyard = declare_pair(channel, names, x_max_length=2)
    publish(channel, queue, b"1", b"2", b"3", b"4")
    dropped = [take(channel, graveyard) for _ in range(2)]
    assert [message.body for message in dropped] == [b"1", b"2"]
    assert [deaths(message)[0]["reason"] for message in dropped] == ["maxlen", "maxlen"]
    assert drain(channel, queue) == [b"3", b"4"]


def test_a_dead_letter_routing_key_replaces_key_and_cc(
    channel: BlockingChannel, names: Names
) -> None:
    """T128: the old keys are in x-death, CC is dropped."""
    queue, graveyard = declare_pair(channel, names)
    publish(channel, queue, b"dead", headers={"CC": ["elsewhere"], "mine": 1})
    reject_one(channel, queue)
    message = take(channel, graveyard)
    assert message.method.routing_key == graveyard
    assert "CC" not in message.properties.headers
    assert deaths(message)[0]["routing-keys"] == [queue, "elsewhere"]


def test_without_a_dead_letter_key_the_old_ones_are_used(
    channel: BlockingChannel, names: Names
) -> None:
    """T128: and CC is kept."""
    queue, graveyard, exchange = names("queue"), names("graveyard"), names("dead")
    channel.exchange_declare(exchange, "direct")
    channel.queue_declare(graveyard)
    channel.queue_bind(graveyard, exchange, "copied")
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": exchange})
    publish(channel, queue, b"dead", headers={"CC": ["copied"]})
    reject_one(channel, queue)
    message = take(channel, graveyard)
    assert (message.method.exchange, message.method.routing_key) == (exchange, queue)
    assert message.properties.headers["CC"] == ["copied"]


def test_a_missing_dead_letter_exchange_is_no_error(channel: BlockingChannel, names: Names) -> None:
    """T129: the message is dropped and life goes on."""
    queue = names("queue")
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": names("missing")})
    publish(channel, queue, b"dead", b"alive")
    reject_one(channel, queue)
    assert drain(channel, queue) == [b"alive"]


def test_the_same_death_twice_is_counted(channel: BlockingChannel, names: Names) -> None:
    """T130: a circle of two queues, rejected in one twice: one entry, count 2."""
    queue, graveyard = names("queue"), names("graveyard")
    channel.queue_declare(
        queue,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard},
    )
    channel.queue_declare(graveyard)
    publish(channel, queue, b"dead")
    for _ in range(2):
        reject_one(channel, queue)
        message = take(channel, graveyard)
        channel.basic_publish("", queue, message.body, message.properties)
        channel.basic_ack(message.method.delivery_tag)
    reject_one(channel, queue)
    (death,) = deaths(take(channel, graveyard))
    assert (death["count"], death["queue"], death["reason"]) == (3, queue, "rejected")


def test_the_first_death_is_remembered(channel: BlockingChannel, names: Names) -> None:
    """T131: over two hops x-death grows at the front and x-first-death-* stays."""
    first, second, third = names("first"), names("second"), names("third")
    for queue, following in ((first, second), (second, third)):
        channel.queue_declare(
            queue,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following},
        )
    channel.queue_declare(third)
    publish(channel, first, b"dead", expiration="10")
    reject_one(channel, second)
    message = take(channel, third)
    headers = message.properties.headers
    assert [(death["queue"], death["reason"]) for death in deaths(message)] == [
        (second, "rejected"),
        (first, "expired"),
    ]
    assert headers["x-first-death-queue"] == first
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-first-death-exchange"] == ""


def test_a_circle_without_a_rejection_is_cut(channel: BlockingChannel, names: Names) -> None:
    """T132: a queue that expires into itself drops the message instead of turning for ever."""
    queue = names("circle")
    channel.queue_declare(
        queue,
        arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 20,
        },
    )  # fmt: skip
    publish(channel, queue, b"round")
    ready_count(channel, queue)  # now it is in the broker's hands
    eventually(lambda: ready_count(channel, queue) == 0)
    settle(channel)
    assert drain(channel, queue) == []


def test_a_circle_with_a_rejection_may_turn(channel: BlockingChannel, names: Names) -> None:
    """T133: rejected into itself, a message comes back each time."""
    queue = names("circle")
    channel.queue_declare(
        queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    )
    publish(channel, queue, b"round")
    for _ in range(3):
        reject_one(channel, queue)
    (death,) = deaths(take(channel, queue))
    assert death["count"] == 3


def test_a_foreign_x_death_is_replaced(channel: BlockingChannel, names: Names) -> None:
    """T134: a client's x-death that is no array does not confuse anybody."""
    queue, graveyard = declare_pair(channel, names)
    publish(channel, queue, b"dead", headers={"x-death": "plague"})
    reject_one(channel, queue)
    (death,) = deaths(take(channel, graveyard))
    assert (death["count"], death["reason"]) == (1, "rejected")


def test_a_dead_letter_key_needs_an_exchange(channel: BlockingChannel, names: Names) -> None:
    """T136: 406 routing_key_but_no_dlx_defined."""
    with channel_error(406) as refusal:
        channel.queue_declare(names("queue"), arguments={"x-dead-letter-routing-key": "key"})
    assert "routing_key_but_no_dlx_defined" in refusal.text


def test_an_expired_queue_leaves_no_dead_letters(channel: BlockingChannel, names: Names) -> None:
    """T049: when the queue goes, its messages go with it."""
    queue, graveyard = declare_pair(channel, names, x_expires=100)
    publish(channel, queue, b"lost")
    # A look renews the lease.
    eventually(lambda: not is_there(channel.connection, queue), pause_s=0.4)
    assert drain(channel, graveyard) == []


def test_an_overflowing_queue_may_dead_letter_the_newcomer(raw: ConnectRaw, names: Names) -> None:
    """T142: reject-publish-dlx: nacked, and dead-lettered with reason maxlen."""
    client, queue, graveyard = raw(), names("queue"), names("graveyard")
    client.call(1, "queue.declare", queue=graveyard)
    arguments = {
        "x-max-length": 1, "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard,
    }  # fmt: skip
    client.call(1, "queue.declare", queue=queue, arguments=arguments)
    client.call(1, "confirm.select")
    client.publish(1, b"first", routing_key=queue)
    assert client.expect(1, "basic.ack").delivery_tag == 1
    client.publish(1, b"second", encode_properties(priority=1), routing_key=queue)
    assert client.expect(1, "basic.nack").delivery_tag == 2
    client.call(1, "basic.consume", queue=graveyard, no_ack=True)
    message = client.expect_content(1, "basic.deliver")
    (death,) = message.properties["headers"]["x-death"].value
    assert (message.body, death.value["reason"].value) == (b"second", b"maxlen")


def test_dead_letters_go_through_any_exchange(channel: BlockingChannel, names: Names) -> None:
    """T125: a fanout for dead letters reaches every queue bound to it."""
    queue, exchange, graves = names("queue"), names("dead"), [names("grave-1"), names("grave-2")]
    channel.exchange_declare(exchange, "fanout")
    for grave in graves:
        channel.queue_declare(grave)
        channel.queue_bind(grave, exchange)
    channel.queue_declare(queue, arguments={"x-dead-letter-exchange": exchange})
    channel.basic_publish("", queue, b"dead", pika.BasicProperties(delivery_mode=2))
    reject_one(channel, queue)
    for grave in graves:
        message = take(channel, grave)
        assert (message.body, message.properties.delivery_mode) == (b"dead", 2)
