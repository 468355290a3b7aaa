"""The end of a channel: consumers gone, what was unacknowledged back in its queues.

Very many messages are given back in slices, so that other clients have their turn in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.channels.channel_events import consumer_deleted
from warren.channels.reply_to import stop_replies
from warren.channels.settling import SETTLED_AT_ONCE_MAX, recover_in_slices

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
    consumed = stop_consuming(channel)
    if has_many(channel):
        channel.session.host.run_to_end(give_back_in_slices(channel, consumed))
    else:
        give_back(channel, consumed)


def has_many(channel: Channel) -> bool:
    """True if the channel has more unacknowledged messages than are given back at once."""
    return len(channel.deliveries.unacked) > SETTLED_AT_ONCE_MAX


async def give_back_in_slices(channel: Channel, consumed: list[AbstractQueue]) -> None:
    """Do what `give_back` does, a slice of the deliveries a turn."""
    _roll_back(channel)
    await recover_in_slices(channel)
    give_back(channel, consumed)


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
    _roll_back(channel)
    channel.deliveries.settle_requeued(channel.deliveries.take_all())
    for queue in consumed:
        queue.pump()
    channel.forget_routes()


def _roll_back(channel: Channel) -> None:
    if channel.transaction is not None:
        channel.transaction.rollback()
        channel.transaction = None
