"""Settling very many deliveries at once: in slices, so that other clients have their turn between.

A client may have 400 000 messages unacknowledged and return them with one nack. Its later frames
wait until that is done, as for any method that takes time. Its queues deliver nothing meanwhile
(`AbstractQueue.begin_return`): a message that is newer than one still to come would overtake it.
Slices go from the oldest delivery to the newest, so what is dead-lettered keeps its order, too.

If the channel ends meanwhile, the end returns all that is left, and there is no more to settle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Coroutine, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from warren.model.errors import not_implemented
from warren.model.next_turn import NextTurn
from warren.queues.arguments import QueueType

if TYPE_CHECKING:
    from warren.queues.boundary import AbstractQueue
    from warren.queues.delivery import Deliveries
    from warren.wire.codec import QueuedMessage

SETTLED_AT_ONCE_MAX: Final = 1_024
"""Settling more than this is cut into slices."""
SLICE: Final = 64
"""Deliveries that a slice settles: 0.1 ms, of which a confirm waits for a few."""
LOOKED_AT_ONCE_MAX: Final = 1_024
ACK_IDS: Final = (60, 80)
_STREAMS_KEEP: Final = "basic.nack and basic.reject not supported by stream queues"


class Settlement(Enum):
    ACK = "ack"
    REQUEUE = "requeue"
    REJECT = "reject"


class SettlingSession(Protocol):
    def suspend(
        self, channel: Any, work: Coroutine[Any, Any, None], ids: tuple[int, int]
    ) -> None: ...


class SettlingChannel(Protocol):
    """The part of a channel that settling needs."""

    deliveries: Deliveries

    @property
    def session(self) -> SettlingSession: ...


def settle(channel: SettlingChannel, settlement: Settlement, taken: list[QueuedMessage]) -> None:
    deliveries = channel.deliveries
    if settlement is Settlement.ACK:
        deliveries.settle_acked(taken)
    elif settlement is Settlement.REQUEUE:
        deliveries.settle_requeued(taken)
    else:
        deliveries.settle_rejected(taken)


def tags_between(deliveries: Deliveries, first: int, last: int) -> list[int]:
    """Return the tags from `first` to `last` of deliveries that are not settled, oldest first.

    Millions may have been settled in between, so these are not always counted through.
    """
    unacked = deliveries.unacked
    if last - first < len(unacked):
        return [tag for tag in range(first, last + 1) if tag in unacked]
    tags = list(unacked)
    return tags[bisect_left(tags, first) : bisect_right(tags, last)]


def queues_of(deliveries: Deliveries, tags: Iterable[int]) -> dict[AbstractQueue, None]:
    """Return the queues that the deliveries with these tags came from."""
    found = (deliveries.unacked.get(tag) for tag in tags)
    return {queued.holder.queue: None for queued in found if queued is not None}


def require_may_return(queues: Iterable[AbstractQueue]) -> None:
    """Raise if one of these is a stream: nothing goes back to it, for it never left."""
    for queue in queues:
        if queue.settings.queue_type is QueueType.STREAM:
            raise not_implemented(f"{_STREAMS_KEEP} {queue.record}")


def first_unsettled(deliveries: Deliveries) -> int:
    """Return the tag of the oldest delivery that is not settled, or of the next one if none is."""
    return next(iter(deliveries.unacked), deliveries.next_tag)


def is_much(deliveries: Deliveries, first: int, last: int) -> bool:
    """True if settling what is unsettled from `first` to `last` is to be cut into slices."""
    return min(last - first + 1, len(deliveries.unacked)) > SETTLED_AT_ONCE_MAX


def ack_many(channel: SettlingChannel, tag: int) -> None:
    """Acknowledge all deliveries up to this one, at once if there are few of them."""
    deliveries = channel.deliveries
    last = tag or deliveries.next_tag - 1
    is_long = is_much(deliveries, deliveries.settled_below, last)
    if not is_long or (tag and tag not in deliveries.unacked):
        deliveries.ack(tag, True)
        return
    tags = tags_between(deliveries, 0, last)
    channel.session.suspend(channel, _settle_slices(channel, Settlement.ACK, tags), ACK_IDS)


async def nack_in_slices(
    channel: SettlingChannel, settlement: Settlement, first: int, last: int
) -> None:
    """Return or refuse the deliveries with these tags; raises if one is of a stream."""
    tags = tags_between(channel.deliveries, first, last)
    queues = await _queues_of_all(channel, tags)
    require_may_return(queues)
    await _settle_in_slices(channel, settlement, tags, queues)


async def recover_in_slices(channel: SettlingChannel) -> None:
    """Return all deliveries of the channel, of which there are some."""
    tags = list(channel.deliveries.unacked)
    queues = await _queues_of_all(channel, tags)
    await _settle_in_slices(channel, Settlement.REQUEUE, tags, queues)


async def _queues_of_all(channel: SettlingChannel, tags: list[int]) -> dict[AbstractQueue, None]:
    queues: dict[AbstractQueue, None] = {}
    for start in range(0, len(tags), LOOKED_AT_ONCE_MAX):
        queues |= queues_of(channel.deliveries, tags[start : start + LOOKED_AT_ONCE_MAX])
        await NextTurn()
    return queues


async def _settle_slices(channel: SettlingChannel, settlement: Settlement, tags: list[int]) -> None:
    """Settle the deliveries with these tags, before which none is unsettled."""
    deliveries = channel.deliveries
    for start in range(0, len(tags), SLICE):
        part = tags[start : start + SLICE]
        settle(channel, settlement, deliveries.take_tags(part))
        deliveries.settled_below = max(deliveries.settled_below, part[-1] + 1)
        await NextTurn()


async def _settle_in_slices(
    channel: SettlingChannel,
    settlement: Settlement,
    tags: list[int],
    queues: Iterable[AbstractQueue],
) -> None:
    for queue in queues:
        queue.begin_return()
    try:
        await _settle_slices(channel, settlement, tags)
    finally:
        for queue in queues:
            queue.end_return()
