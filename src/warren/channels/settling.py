"""Settling very many deliveries at once: in slices, so that other clients have their turn between.

A client may have 400 000 messages unacknowledged and return them with one nack. Its later frames
wait until that is done, as for any method that takes time. Its queues deliver nothing meanwhile
(`AbstractQueue.begin_return`): a message that is newer than one still to come would overtake it.
Slices go from the oldest delivery to the newest, so what is dead-lettered keeps its order, too.

If the channel ends meanwhile, the end returns all that is left, and there is no more to settle.
"""

from __future__ import annotations

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


def queues_of(channel: SettlingChannel, first: int, last: int) -> dict[AbstractQueue, None]:
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


def first_unsettled(deliveries: Deliveries) -> int:
    """Return the tag of the oldest delivery that is not settled, or of the next one if none is."""
    return next(iter(deliveries.unacked), deliveries.next_tag)


def ack_many(channel: SettlingChannel, tag: int) -> None:
    """Acknowledge all deliveries up to this one, at once if there are few of them."""
    deliveries = channel.deliveries
    last = tag or deliveries.next_tag - 1
    is_long = last - deliveries.settled_below >= SETTLED_AT_ONCE_MAX
    if not is_long or (tag and tag not in deliveries.unacked):
        deliveries.ack(tag, True)
        return
    first = first_unsettled(deliveries)
    work = _settle_slices(channel, Settlement.ACK, first, last)
    channel.session.suspend(channel, work, ACK_IDS)


async def nack_in_slices(
    channel: SettlingChannel, settlement: Settlement, first: int, last: int
) -> None:
    """Return or refuse the deliveries with these tags; raises if one is of a stream."""
    queues = await _queues_of_all(channel, first, last)
    require_may_return(queues)
    await _settle_in_slices(channel, settlement, first, last, queues)


async def recover_in_slices(channel: SettlingChannel) -> None:
    """Return all deliveries of the channel, of which there are some."""
    deliveries = channel.deliveries
    first, last = first_unsettled(deliveries), deliveries.next_tag - 1
    queues = await _queues_of_all(channel, first, last)
    await _settle_in_slices(channel, Settlement.REQUEUE, first, last, queues)


async def _queues_of_all(
    channel: SettlingChannel, first: int, last: int
) -> dict[AbstractQueue, None]:
    queues: dict[AbstractQueue, None] = {}
    for start in range(first, last + 1, LOOKED_AT_ONCE_MAX):
        queues |= queues_of(channel, start, min(last, start + LOOKED_AT_ONCE_MAX - 1))
        await NextTurn()
    return queues


async def _settle_slices(
    channel: SettlingChannel, settlement: Settlement, first: int, last: int
) -> None:
    deliveries = channel.deliveries
    for start in range(first, last + 1, SLICE):
        count = min(SLICE, last + 1 - start)
        settle(channel, settlement, deliveries.take_run(start, count))
        deliveries.settled_below = max(deliveries.settled_below, start + count)
        await NextTurn()


async def _settle_in_slices(
    channel: SettlingChannel,
    settlement: Settlement,
    first: int,
    last: int,
    queues: Iterable[AbstractQueue],
) -> None:
    for queue in queues:
        queue.begin_return()
    try:
        await _settle_slices(channel, settlement, first, last)
    finally:
        for queue in queues:
            queue.end_return()
