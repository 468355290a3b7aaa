"""A publish to very many queues: in slices, so that other clients have their turn in between.

A persistent message for 20 000 queues takes 0.2 s to hand out. The client's later frames wait until
all queues have it, as for any method that takes time, so nothing overtakes it. The publish is
confirmed once, when every queue has it as safe as it asked to be: until all have been given it, the
channel itself counts as one that it waits for.

A connection that ends meanwhile changes nothing: the rest of the queues get the message, too.
Topology may change between two slices. Then queues are looked up by name again, as a transaction's
commit does it: one that has been deleted gets nothing, one that has another master gets it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from warren.model.next_turn import NextTurn
from warren.queues.boundary import PENDING, REJECTED, AbstractQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warren.broker.vhost import VirtualHost
    from warren.channels.confirms import Confirms
    from warren.channels.route import Route
    from warren.routing.topology_version import TopologyVersion
    from warren.wire.codec import Message

WIDE_ROUTE_MIN: Final = 256
"""A route to fewer queues is served at once: that is about a millisecond."""
QUEUES_AT_ONCE_MAX: Final = 16


class WideChannel(Protocol):
    """The part of a channel that a wide publish needs."""

    version: TopologyVersion
    confirms: Confirms | None
    vhost: VirtualHost


async def publish_widely(
    channel: WideChannel, message: Message, route: Route, version: int
) -> None:
    """Hand the message to its queues, and see that the publisher hears of the outcome.

    `version` is that of the topology when the route was found, a turn before this begins.
    """
    confirms = channel.confirms
    sequence = 0
    if confirms is not None:
        sequence = confirms.begin()
        confirms.wait_for(sequence, 1)
    is_rejected = False
    for start in range(0, route.width, QUEUES_AT_ONCE_MAX):
        if start:
            await NextTurn()
        queues = route.queues[start : start + QUEUES_AT_ONCE_MAX]
        if channel.version.value != version:
            queues = queues_now(channel, queues)
        is_rejected |= _publish_slice(message, queues, confirms, sequence)
    if confirms is None or sequence not in confirms.unconfirmed:
        return  # nobody asked, or a queue has refused it meanwhile, which has been told
    if is_rejected:
        confirms.rejected(sequence)
    else:
        confirms.confirmed(sequence)


def queues_now(channel: WideChannel, queues: Iterable[AbstractQueue]) -> tuple[AbstractQueue, ...]:
    """Return the queues that have these names now; those that are gone are left out."""
    known = channel.vhost.queues
    return tuple(now for queue in queues if (now := known.get(queue.record.name)) is not None)


def _publish_slice(
    message: Message,
    queues: tuple[AbstractQueue, ...],
    confirms: Confirms | None,
    sequence: int,
) -> bool:
    """Return True if a queue has rejected the message."""
    pending = 0
    is_rejected = False
    for queue in queues:
        outcome = queue.publish(message, confirms, sequence)
        pending += outcome == PENDING
        is_rejected |= outcome == REJECTED
    if confirms is not None:
        confirms.wait_for_more(sequence, pending)
    return is_rejected
