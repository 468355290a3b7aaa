"""The header x-death: its counts, its order, and the circles that are found by it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import drain, eventually, publish, ready_count, settle, take
from live_broker import Names

TTL_MS = 10


def declare(channel: BlockingChannel, name: str, exchange: str, key: str, **more: Any) -> None:
    """A queue that dead-letters to an exchange with a key of its own."""
    target = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}
    channel.queue_declare(name, arguments={**target, **more})


def entry(queue: str, reason: str = "rejected", **more: Any) -> dict[str, Any]:
    """An entry as a client, or a broker before 3.6, may have written it."""
    return {"exchange": "", "queue": queue, "reason": reason, "routing-keys": ["k"], **more}


def entries(channel: BlockingChannel, queue: str) -> list[tuple[str, int | None]]:
    """Names of queues in the x-death of the next message, and how often it died there."""
    headers = take(channel, queue).properties.headers
    return [(death["queue"], death.get("count")) for death in headers["x-death"]]


def test_the_latest_death_is_first_and_the_rest_is_turned_round(
    channel: BlockingChannel, names: Names
) -> None:
    """T131: each death reverses the former entries, as RabbitMQ's grouping does."""
    chain = [names(f"hop-{number}") for number in range(7)]
    for queue, following in pairwise(chain):
        declare(channel, queue, "", following, **{"x-message-ttl": TTL_MS})
    channel.queue_declare(chain[-1])
    publish(channel, chain[0], b"dying")
    found = entries(channel, chain[-1])
    assert found == [(chain[number], 1) for number in (5, 3, 1, 0, 2, 4)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([entry("a"), entry("a"), entry("b")], [("QUEUE", 1), ("b", 1), ("a", 2)]),
        ([entry("a")], [("QUEUE", 1), ("a", None)]),
        ([entry("QUEUE", "expired")], [("QUEUE", 1)]),
        ([entry("QUEUE", "expired"), entry("a")], [("QUEUE", 2), ("a", 1)]),
        ([entry("a", count=5), entry("a")], [("QUEUE", 1), ("a", 5)]),
        ([entry("a", "expired"), entry("a")], [("QUEUE", 1), ("a", 1), ("a", 1)]),
        ([entry("QUEUE", "expired", count=3)], [("QUEUE", 4)]),
    ],
)
def test_entries_without_a_count_are_counted(
    channel: BlockingChannel,
    names: Names,
    before: list[dict[str, Any]],
    after: list[tuple[str, int | None]],
) -> None:
    """T130: two entries or more are grouped by queue and reason, a single one stays as it is."""
    queue, graveyard = names("queue"), names("graveyard")
    channel.queue_declare(graveyard)
    declare(channel, queue, "", graveyard, **{"x-message-ttl": TTL_MS})
    named = [{**death, "queue": death["queue"].replace("QUEUE", queue)} for death in before]
    publish(channel, queue, b"dying", headers={"x-death": named})
    expected = [(name.replace("QUEUE", queue), count) for name, count in after]
    assert entries(channel, graveyard) == expected


def declare_circle(channel: BlockingChannel, names: Names) -> tuple[str, str, str]:
    """Two queues that expire into each other; a third gets a copy of all that leaves the second."""
    first, second, witness = names("first"), names("second"), names("witness")
    exchange = names("circle")
    channel.exchange_declare(exchange, "fanout")
    declare(channel, first, "", second, **{"x-message-ttl": TTL_MS})
    declare(channel, second, exchange, "round", **{"x-message-ttl": TTL_MS})
    channel.queue_declare(witness)
    for queue in (first, witness):
        channel.queue_bind(queue, exchange)
    return first, second, witness


def test_a_circle_of_two_queues_is_cut(channel: BlockingChannel, names: Names) -> None:
    """T132: the message comes back to where it expired before, and is dropped there."""
    first, _, witness = declare_circle(channel, names)
    publish(channel, first, b"round")
    eventually(lambda: ready_count(channel, witness) == 1)
    settle(channel, 10 * TTL_MS / 1000)
    assert drain(channel, witness) == [b"round"]


def test_an_earlier_rejection_may_hide_a_circle(channel: BlockingChannel, names: Names) -> None:
    """T133: in RabbitMQ's order the rejection comes before the queue that would close the circle.

    So the message goes round until somebody takes it.
    """
    first, _, witness = declare_circle(channel, names)
    rejecting = names("rejecting")
    declare(channel, rejecting, "", first)
    publish(channel, rejecting, b"round")
    delivery = take(channel, rejecting)
    channel.basic_reject(delivery.method.delivery_tag, requeue=False)
    eventually(lambda: ready_count(channel, witness) >= 3)


def test_a_queue_that_expires_into_itself_drops_what_was_rejected_before(
    channel: BlockingChannel, names: Names
) -> None:
    """T132: its own entry is the first, so nothing can hide it."""
    rejecting, circle, witness = names("rejecting"), names("itself"), names("witness")
    exchange = names("circle")
    channel.exchange_declare(exchange, "fanout")
    declare(channel, rejecting, "", circle)
    declare(channel, circle, exchange, "round", **{"x-message-ttl": TTL_MS})
    channel.queue_declare(witness)
    for queue in (circle, witness):
        channel.queue_bind(queue, exchange)
    publish(channel, rejecting, b"round")
    delivery = take(channel, rejecting)
    channel.basic_reject(delivery.method.delivery_tag, requeue=False)
    eventually(lambda: ready_count(channel, witness) == 1)
    settle(channel, 10 * TTL_MS / 1000)
    assert drain(channel, witness) == [b"round"]
