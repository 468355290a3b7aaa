"""Direct reply-to: answers to a request without a queue of their own.

A client consumes from the name `amq.rabbitmq.reply-to` (which is no queue) and publishes requests
with that name as reply-to. The broker puts an address with a token in its place; whoever publishes
to the default exchange with that address as routing key reaches the requesting channel directly.
Nothing is stored: an answer to a channel that is gone is lost. To `mandatory` the address is no
queue, as in RabbitMQ: such an answer is handed over and returned as well, unless it reached a
queue by CC.

An address has RabbitMQ's form: two parts in base64, of which the second is the token. In a cluster
the first is the name of the node that the requester is connected to. Answers from other nodes
travel over the link to that node's `ReplyDesk`, which hands them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.channels.reply_registry import ReplyConsumer
from warren.model.errors import precondition_failed

if TYPE_CHECKING:
    from warren.channels.channel import Channel


def consume_replies(channel: Channel, tag: str, no_ack: bool, token: str) -> None:
    if channel.reply_consumer is not None:
        raise precondition_failed("reply consumer already set")
    if not no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    registry = channel.session.reply_registry
    channel.reply_consumer = ReplyConsumer(channel, tag, registry.address(token))
    registry.add(channel.reply_consumer)


def stop_replies(channel: Channel) -> None:
    if channel.reply_consumer is not None:
        channel.session.reply_registry.remove(channel.reply_consumer)
        channel.reply_consumer = None
