"""Direct reply-to: answers to a request without a queue of their own.

A client consumes from the name `amq.rabbitmq.reply-to` (which is no queue) and publishes requests
with that name as reply-to. The broker puts an address with a token in its place; whoever publishes
to the default exchange with that address as routing key reaches the requesting channel directly.
Nothing is stored: an answer to a channel that is gone is lost, or returned if it was mandatory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.model.counters import MessageCounters
from warren.model.errors import precondition_failed
from warren.model.records import QueueRecord
from warren.queues.boundary import TAKEN, AbstractQueue, Publisher
from warren.queues.consumers import Consumer
from warren.wire.codec import Message

if TYPE_CHECKING:
    from warren.channels.channel import Channel

DIRECT_REPLY_TO: Final = "amq.rabbitmq.reply-to"
DIRECT_REPLY_TO_PREFIX: Final = DIRECT_REPLY_TO + "."


class ReplyConsumer(AbstractQueue):
    """Looks like a queue to a publisher; is one channel's consumer."""

    def __init__(self, channel: Channel, tag: str, address: str) -> None:
        self.record = QueueRecord(channel.vhost.name, address, durable=False)
        self.counters = MessageCounters()
        self.address = address
        self._channel = channel
        self.consumer = Consumer(self, channel.deliveries, tag, no_ack=True, prefetch=0)

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if not self._channel.is_closing:
            self.consumer.hand_over(message, False)
        return TAKEN


class ReplyRegistry:
    """All addresses of this node that lead to a living channel."""

    def __init__(self) -> None:
        self._consumers: dict[str, ReplyConsumer] = {}

    def add(self, consumer: ReplyConsumer) -> None:
        self._consumers[consumer.address] = consumer

    def remove(self, consumer: ReplyConsumer) -> None:
        self._consumers.pop(consumer.address, None)

    def route(self, address: str) -> tuple[AbstractQueue, ...]:
        consumer = self._consumers.get(address)
        return () if consumer is None else (consumer,)

    def __contains__(self, address: str) -> bool:
        return address in self._consumers


def reply_address(channel: Channel) -> str:
    if channel.reply_consumer is None:
        raise precondition_failed("fast reply consumer does not exist")
    return channel.reply_consumer.address


def consume_replies(channel: Channel, tag: str, no_ack: bool, token: str) -> None:
    if channel.reply_consumer is not None:
        raise precondition_failed("reply consumer already set")
    if not no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    channel.reply_consumer = ReplyConsumer(channel, tag, DIRECT_REPLY_TO_PREFIX + token)
    channel.session.reply_registry.add(channel.reply_consumer)


def stop_replies(channel: Channel) -> None:
    if channel.reply_consumer is not None:
        channel.session.reply_registry.remove(channel.reply_consumer)
        channel.reply_consumer = None
