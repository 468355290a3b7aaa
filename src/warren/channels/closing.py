"""The end of a channel: consumers gone, what was unacknowledged back in its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.channels.reply_to import stop_replies

if TYPE_CHECKING:
    from warren.channels.channel import Channel


def release_channel(channel: Channel) -> None:
    # First no more consumers, or what is requeued would be delivered here again.
    for consumer in list(channel.consumers.values()):
        consumer.queue.remove_consumer(consumer)
    channel.consumers.clear()
    stop_replies(channel)
    if channel.transaction is not None:
        channel.transaction.rollback()
        channel.transaction = None
    channel.deliveries.settle_requeued(channel.deliveries.take_all())
    channel.forget_routes()
