"""What tests do over and over with a pika channel, and how they say which error they expect."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

# Long, since waiting costs nothing when things go well, and machines may be slow and busy.
WAIT_S: Final = 30.0
POLL_S: Final = 0.01


class Message(NamedTuple):
    method: Any
    properties: pika.BasicProperties
    body: bytes


@dataclass
class Refusal:
    """Filled in when the expected error came."""

    text: str = ""


@dataclass
class Inbox:
    """A consumer that keeps what it is given and acknowledges nothing by itself."""

    channel: BlockingChannel
    tag: str = ""
    messages: list[Message] = field(default_factory=list)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def await_count(self, count: int) -> None:
        """Wait for at least `count` messages."""
        deadline = time.monotonic() + WAIT_S
        while len(self.messages) < count:
            assert time.monotonic() < deadline, f"only {self.bodies} of {count} messages came"
            self.channel.connection.process_data_events(time_limit=POLL_S)


def await_together(count: int, *inboxes: Inbox) -> None:
    """At least so many messages in all of them, and a moment for those that should not come."""
    connection = inboxes[0].channel.connection
    deadline = time.monotonic() + WAIT_S
    while (came := sum(len(inbox.messages) for inbox in inboxes)) < count:
        assert time.monotonic() < deadline, f"only {came} of {count} messages came"
        connection.process_data_events(time_limit=POLL_S)
    settle(inboxes[0].channel)


@contextlib.contextmanager
def channel_error(code: int) -> Iterator[Refusal]:
    """The broker must close the channel with this code inside the block."""
    refusal = Refusal()
    with pytest.raises(ChannelClosedByBroker) as caught:
        yield refusal
    assert caught.value.reply_code == code, caught.value
    refusal.text = caught.value.reply_text


@contextlib.contextmanager
def connection_error(code: int) -> Iterator[Refusal]:
    refusal = Refusal()
    with pytest.raises(ConnectionClosedByBroker) as caught:
        yield refusal
    assert caught.value.reply_code == code, caught.value
    refusal.text = caught.value.reply_text


def eventually(
    condition: Callable[[], bool], within_s: float = WAIT_S, pause_s: float = POLL_S
) -> None:
    """A longer pause is for looks that put off what is looked for."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(pause_s)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes, **properties: Any) -> None:
    """Through the default exchange, in order, all with the same properties."""
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def get(channel: BlockingChannel, queue: str, auto_ack: bool = False) -> Message | None:
    method, properties, body = channel.basic_get(queue, auto_ack)
    return None if method is None else Message(method, properties, body)


def take(channel: BlockingChannel, queue: str, within_s: float = WAIT_S) -> Message:
    """One message, which may still be on its way; it stays unacknowledged."""
    deadline = time.monotonic() + within_s
    while (message := get(channel, queue)) is None:
        assert time.monotonic() < deadline, f"no message came to {queue}"
        time.sleep(POLL_S)
    return message


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """The bodies that are ready now, in order, taken out of the queue."""
    bodies = []
    while (message := get(channel, queue, auto_ack=True)) is not None:
        bodies.append(message.body)
    return bodies


def consume(channel: BlockingChannel, queue: str, **options: Any) -> Inbox:
    inbox = Inbox(channel)
    inbox.tag = channel.basic_consume(
        queue, lambda _, *message: inbox.messages.append(Message(*message)), **options
    )
    return inbox


def settle(channel: BlockingChannel, seconds: float = 0.15) -> None:
    """Give the broker time to send what it should not send."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        channel.connection.process_data_events(time_limit=left)


def ready_count(channel: BlockingChannel, queue: str) -> int:
    count = channel.queue_declare(queue, passive=True).method.message_count
    assert isinstance(count, int)
    return count


def is_there(connection: Any, queue: str) -> bool:
    """Whether the queue exists and is not locked, asked on a channel of its own."""
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as closed:
        if closed.reply_code != 404:
            raise
        return False
    channel.close()
    return True


def exchange_is_there(connection: Any, exchange: str) -> bool:
    channel = connection.channel()
    try:
        channel.exchange_declare(exchange, passive=True)
    except ChannelClosedByBroker as closed:
        if closed.reply_code != 404:
            raise
        return False
    channel.close()
    return True
