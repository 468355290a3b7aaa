"""What is told of channels and consumers that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.events import shown_arguments

if TYPE_CHECKING:
    from warren.channels.channel import Channel
    from warren.queues.consumers import Consumer


def channel_created(channel: Channel) -> None:
    session, host = channel.session, channel.session.host
    session.vhost.events.tell(
        "channel.created",
        lambda: {
            "vhost": session.vhost.name,
            "user": session.user.name,
            "number": channel.number,
            "connection": host.pid(),
            "name": f"{host.full_name} ({channel.number})",
            "pid": host.pid(channel.number),
        },
        session.user.name,
    )


def channel_closed(channel: Channel) -> None:
    session = channel.session
    session.vhost.events.tell(
        "channel.closed", lambda: {"pid": session.host.pid(channel.number)}, session.user.name
    )


def consumer_created(channel: Channel, consumer: Consumer) -> None:
    channel.vhost.events.tell(
        "consumer.created",
        lambda: {
            "arguments": shown_arguments(consumer.arguments),
            "prefetch_count": consumer.prefetch,
            "queue": consumer.queue.record.name,
            "vhost": channel.vhost.name,
            "channel": channel.session.host.pid(channel.number),
            "ack_required": not consumer.no_ack,
            "exclusive": consumer.exclusive,
            "consumer_tag": consumer.tag,
        },
        channel.user_name,
    )


def consumer_deleted(channel: Channel, consumer: Consumer) -> None:
    channel.vhost.events.tell(
        "consumer.deleted",
        lambda: {
            "queue": consumer.queue.record.name,
            "vhost": channel.vhost.name,
            "channel": channel.session.host.pid(channel.number),
            "consumer_tag": consumer.tag,
        },
        channel.user_name,
    )
