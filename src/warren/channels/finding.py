"""Asking a queue that may be on its way from one node to another, or gone by now.

A node that is asked about a queue which it does not have says so: either the queue was deleted, or
it has another home, which may be this node. Whoever asked knows as much as soon as it has caught up
with the store, and looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from warren.model.errors import QueueGone
from warren.model.records import describe_queue
from warren.queues.boundary import AbstractQueue

if TYPE_CHECKING:
    from warren.channels.channel import Channel

# Each means that the queue has been deleted or has moved between a look at it and the next.
GONE_ATTEMPTS_MAX: Final = 1_000

T = TypeVar("T")


async def ask_where_it_is(
    channel: Channel, name: str, ask: Callable[[AbstractQueue], T | Coroutine[Any, Any, T]]
) -> T:
    """What `ask` comes to; 404 if there is no such queue any more."""
    vhost, connection_id = channel.vhost, channel.session.host.connection_id
    return await until_not_gone(channel, name, lambda: ask(vhost.lookup_queue(name, connection_id)))


async def until_not_gone(
    channel: Channel, name: str, ask: Callable[[], T | Coroutine[Any, Any, T]]
) -> T:
    """`ask` looks for the queue each time."""
    for _ in range(GONE_ATTEMPTS_MAX):
        try:
            answer = ask()
            return await answer if isinstance(answer, Coroutine) else answer
        except QueueGone:
            await channel.vhost.settle_queue(name)
    raise QueueGone(describe_queue(name, channel.vhost.name))
