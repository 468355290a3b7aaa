"""The end of a channel: consumers gone, what was unacknowledged back in its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.channels.channel_events import consumer_deleted
from warren.channels.reply_to import stop_replies

if TYPE_CHECKING:
    from warren.channels.channel import Channel
    from warren.queues.boundary import AbstractQueue


def is_gone(channel: Channel) -> bool:
    """Whether it has ended, perhaps while somebody else was asked for an answer.

    Nothing may be given to it any more: nobody would take that back.
    """
    return channel.is_closing or channel.session.intake.is_closed


def tell_confirms(channel: Channel) -> None:
    """The last chance to tell what is safe by now, unless the node may not tell."""
    if channel.confirms is not None:
        if not channel.session.host.is_frozen:
            channel.confirms.flush()
        channel.confirms.is_closed = True


def release_channel(channel: Channel) -> None:
    give_back(channel, stop_consuming(channel))


def stop_consuming(channel: Channel) -> list[AbstractQueue]:
    """No more deliveries to the channel; returns the queues that it consumed from."""
    queues = dict.fromkeys(consumer.queue for consumer in channel.consumers.values())
    for consumer in channel.consumers.values():
        consumer.queue.remove_consumer(consumer)
        consumer_deleted(channel, consumer)
    channel.consumers.clear()
    stop_replies(channel)
    return list(queues)


def give_back(channel: Channel, consumed: list[AbstractQueue]) -> None:
    """Requeue what is unacknowledged, and only then let others have what comes next."""
    if channel.transaction is not None:
        channel.transaction.rollback()
        channel.transaction = None
    channel.deliveries.settle_requeued(channel.deliveries.take_all())
    for queue in consumed:
        queue.pump()
    channel.forget_routes()
