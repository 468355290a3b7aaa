"""Settling very many deliveries at once: in slices, so that other clients have their turn between.

A client may have 400 000 messages unacknowledged and return them with one nack. Its later frames
wait until that is done, as for any method that takes time. Its queues deliver nothing meanwhile
(`AbstractQueue.begin_return`): a message that is newer than one still to come would overtake it.
Slices go from the oldest delivery to the newest, so what is dead-lettered keeps its order, too.

If the channel ends meanwhile, the end returns all that is left, and there is no more to settle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from warren.broker.next_turn import NextTurn
from warren.channels.transaction import Settlement, settle
from warren.model.errors import not_implemented
from warren.queues.arguments import QueueType

if TYPE_CHECKING:
    from warren.channels.channel import Channel
    from warren.queues.boundary import AbstractQueue

SETTLED_AT_ONCE_MAX: Final = 4_096
_STREAMS_KEEP: Final = "basic.nack and basic.reject not supported by stream queues"


def queues_of(channel: Channel, first: int, last: int) -> dict[AbstractQueue, None]:
    """Queues that the deliveries with these tags came from."""
    queues: dict[AbstractQueue, None] = {}
    unacked = channel.deliveries.unacked
    for tag in range(first, last + 1):
        queued = unacked.get(tag)
        if queued is not None:
            queues[queued.holder.queue] = None
    return queues


def require_may_return(queues: Iterable[AbstractQueue]) -> None:
    """Raise if one of these is a stream: nothing goes back to it, for it never left."""
    for queue in queues:
        if queue.settings.queue_type is QueueType.STREAM:
            raise not_implemented(f"{_STREAMS_KEEP} {queue.record}")


async def nack_in_slices(channel: Channel, settlement: Settlement, first: int, last: int) -> None:
    """Return or refuse the deliveries with these tags; raises if one is of a stream."""
    queues = await _queues_of_all(channel, first, last)
    require_may_return(queues)
    await _settle_in_slices(channel, settlement, first, last, queues)


async def recover_in_slices(channel: Channel) -> None:
    """Return all deliveries of the channel."""
    deliveries = channel.deliveries
    first, last = next(iter(deliveries.unacked)), deliveries.next_tag - 1
    queues = await _queues_of_all(channel, first, last)
    await _settle_in_slices(channel, Settlement.REQUEUE, first, last, queues)


def _slices(first: int, last: int) -> range:
    return range(first, last + 1, SETTLED_AT_ONCE_MAX)


async def _queues_of_all(channel: Channel, first: int, last: int) -> dict[AbstractQueue, None]:
    queues: dict[AbstractQueue, None] = {}
    for start in _slices(first, last):
        queues |= queues_of(channel, start, min(last, start + SETTLED_AT_ONCE_MAX - 1))
        await NextTurn()
    return queues


async def _settle_in_slices(
    channel: Channel,
    settlement: Settlement,
    first: int,
    last: int,
    queues: Iterable[AbstractQueue],
) -> None:
    deliveries = channel.deliveries
    for queue in queues:
        queue.begin_return()
    try:
        for start in _slices(first, last):
            count = min(SETTLED_AT_ONCE_MAX, last + 1 - start)
            settle(channel, settlement, deliveries.take_run(start, count))
            deliveries.settled_below = max(deliveries.settled_below, start + count)
            await NextTurn()
    finally:
        for queue in queues:
            queue.end_return()
