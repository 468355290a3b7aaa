"""Deduplicating exchanges and queues, as a client sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error, drain
from broker_process import BrokerProcess
from live_broker import Connect, Names

TYPE = "x-message-deduplication"


def publish(
    channel: BlockingChannel, exchange: str, key: str, an_id: object, body: bytes = b"body"
) -> None:
    properties = pika.BasicProperties(headers={"x-deduplication-header": an_id}, delivery_mode=2)
    channel.basic_publish(exchange, key, body, properties)


def declare(channel: BlockingChannel, queue: str, **window: int) -> str:
    arguments: dict[str, Any] = {f"x-cache-{name}": value for name, value in window.items()}
    channel.queue_declare(queue, durable=True, arguments={TYPE: True, **arguments})
    return queue


def test_an_exchange_passes_each_id_on_once(channel: BlockingChannel, names: Names) -> None:
    exchange, queue = names("exchange"), names("queue")
    channel.exchange_declare(exchange, TYPE, arguments={"x-cache-size": 10})
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "")
    channel.confirm_delivery()
    for number, an_id in enumerate(["a", "a", "b", 1, 1]):
        publish(channel, exchange, "any", an_id, b"%d" % number)
    assert drain(channel, queue) == [b"0", b"2", b"3"]


def test_an_exchange_has_to_know_how_much_to_remember(
    channel: BlockingChannel, names: Names
) -> None:
    with channel_error(406) as refusal:
        channel.exchange_declare(names("exchange"), TYPE)
    assert refusal.text == (
        "PRECONDITION_FAILED - Missing or invalid argument, "
        "'x-cache-size' must be an integer greater than 0"
    )


def test_a_queue_takes_an_id_once_while_its_message_is_there(
    channel: BlockingChannel, names: Names
) -> None:
    queue = declare(channel, names("queue"))
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        publish(channel, "", queue, "a", body)
    assert drain(channel, queue) == [b"1"]
    publish(channel, "", queue, "a", b"3")
    assert drain(channel, queue) == [b"3"]


def test_a_window_remembers_what_was_consumed(channel: BlockingChannel, names: Names) -> None:
    queue = declare(channel, names("queue"), size=100)
    channel.confirm_delivery()
    publish(channel, "", queue, "a", b"1")
    assert drain(channel, queue) == [b"1"]
    publish(channel, "", queue, "a", b"2")
    publish(channel, "", queue, "b", b"3")
    assert drain(channel, queue) == [b"3"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({TYPE: "yes"}, f"invalid arg '{TYPE}' for QUEUE: {{unacceptable_type,longstr}}"),
        ({TYPE: True, "x-cache-size": 0}, "invalid arg 'x-cache-size' for QUEUE: {value_zero,0}"),
        (
            {TYPE: True, "x-cache-ttl": -1},
            "invalid arg 'x-cache-ttl' for QUEUE: {value_negative,-1}",
        ),
        (
            {TYPE: True, "x-queue-type": "stream"},
            f"invalid arg '{TYPE}' for QUEUE of queue type rabbit_stream_queue",
        ),
    ],
)
def test_queue_arguments_that_make_no_sense_are_refused(
    channel: BlockingChannel, names: Names, arguments: dict[str, Any], problem: str
) -> None:
    queue = names("queue")
    with channel_error(406) as refusal:
        channel.queue_declare(queue, durable=True, arguments=arguments)
    text = problem.replace("QUEUE", f"queue '{queue}' in vhost '/'")
    assert refusal.text == f"PRECONDITION_FAILED - {text}"


def test_a_queue_cannot_be_declared_again_without(
    channel: BlockingChannel, names: Names, connect: Connect
) -> None:
    queue = declare(channel, names("queue"), size=5)
    with channel_error(406) as refusal:
        channel.queue_declare(queue, durable=True, arguments={TYPE: True, "x-cache-size": 6})
    assert "inequivalent arg 'x-cache-size'" in refusal.text


def test_ids_go_with_their_queue(channel: BlockingChannel, names: Names) -> None:
    queue = names("queue")
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        declare(channel, queue, size=5)
        publish(channel, "", queue, "a", body)
        assert drain(channel, queue) == [body]
        channel.queue_delete(queue)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    process.start()
    yield process
    process.stop()


def open_channel(process: BrokerProcess) -> BlockingChannel:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*process.address))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def test_ids_survive_sigkill_with_the_messages_they_came_with(mortal: BrokerProcess) -> None:
    """Consumed or not; in a window, by priority, and of those that are still there."""
    channel = open_channel(mortal)
    declare(channel, "window", size=1_000)
    declare(channel, "plain")
    channel.queue_declare(
        "levels", durable=True, arguments={TYPE: True, "x-cache-size": 9, "x-max-priority": 3}
    )
    for queue in ("window", "plain", "levels"):
        for number in range(5):
            publish(channel, "", queue, number, b"%d" % number)
    publish(channel, "", "plain", "large", bytes(100_000))
    assert len(drain(channel, "window")) == 5
    mortal.kill()
    mortal.start()
    channel = open_channel(mortal)
    for queue in ("window", "plain", "levels"):
        for number in (0, 4, 5):
            publish(channel, "", queue, number, b"again %d" % number)
    publish(channel, "", "plain", "large", b"again")
    # What was acknowledged just before the end may come again; what was published may not.
    bodies = drain(channel, "window")
    assert bodies[-1] == b"again 5"
    assert b"again 0" not in bodies
    assert b"again 4" not in bodies
    five = [b"0", b"1", b"2", b"3", b"4"]
    assert drain(channel, "levels") == [*five, b"again 5"]
    assert drain(channel, "plain") == [*five, bytes(100_000), b"again 5"]
    channel.connection.close()


def test_what_is_published_again_after_sigkill_is_there_once(mortal: BrokerProcess) -> None:
    """By a publisher that does not know what of it had come, and that goes on being killed."""
    channel = open_channel(mortal)
    declare(channel, "window", size=10_000)
    numbers = range(800)
    for sent in (300, 600):
        hasty = pika.BlockingConnection(pika.ConnectionParameters(*mortal.address)).channel()
        for number in numbers[:sent]:
            publish(hasty, "", "window", number, b"%d" % number)
        mortal.kill()
        mortal.start()
    channel = open_channel(mortal)
    for number in numbers:
        publish(channel, "", "window", number, b"%d" % number)
    assert drain(channel, "window") == [b"%d" % number for number in numbers]
    channel.connection.close()


def test_an_exchange_that_is_told_to_remembers_over_a_stop_and_none_over_a_kill(
    mortal: BrokerProcess,
) -> None:
    """An id must not outlive its message: what is published again would be dropped."""
    channel = open_channel(mortal)
    for kind in ("disk", "memory"):
        window = {"x-cache-size": 10, "x-cache-persistence": kind}
        channel.exchange_declare(kind, TYPE, durable=True, arguments=window)
        channel.queue_declare(kind, durable=True)
        channel.queue_bind(kind, kind, "")
        publish(channel, kind, "", "a", b"before")
    mortal.restart()
    channel = open_channel(mortal)
    for kind in ("disk", "memory"):
        publish(channel, kind, "", "a", b"after")
        publish(channel, kind, "", "b", b"new")
    assert drain(channel, "disk") == [b"before", b"new"]
    assert drain(channel, "memory") == [b"before", b"after", b"new"]
    mortal.kill()
    mortal.start()
    channel = open_channel(mortal)
    for kind in ("disk", "memory"):
        publish(channel, kind, "", "b", b"again")
        assert drain(channel, kind)[-1] == b"again"
    channel.connection.close()
