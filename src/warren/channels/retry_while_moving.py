"""Finding a queue and asking it, while it may be moving from one node to another, or deleted.

A node that is asked about a queue which it does not have says so: either the queue was deleted, or
another node is its master, which may be this one. The node that asked knows as much as soon as it
has caught up with the store, and looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from warren.model.errors import QueueGone
from warren.model.records import describe_queue
from warren.queues.boundary import AbstractQueue, Answer, answer_of

if TYPE_CHECKING:
    from warren.channels.channel import Channel

# Each means that the queue has been deleted or has moved between a look at it and the next.
GONE_ATTEMPTS_MAX: Final = 1_000

T = TypeVar("T")


def ask(channel: Channel, name: str, question: Callable[[AbstractQueue], Answer[T]]) -> Answer[T]:
    """Ask the queue of that name; a value if it answers at once. 404 if there is no such queue."""
    vhost, connection_id = channel.vhost, channel.session.host.connection_id
    answer = question(vhost.lookup_queue(name, connection_id))
    if answer is None or not isinstance(answer, Coroutine):
        return answer
    return retry_while_moving(
        channel, name, lambda: question(vhost.lookup_queue(name, connection_id)), answer
    )


async def retry_while_moving(
    channel: Channel,
    name: str,
    look: Callable[[], Answer[T]],
    answer: Coroutine[Any, Any, T] | None = None,
) -> T:
    """Await `answer`, if there is one; `look` finds the queue again as long as it has moved."""
    for _ in range(GONE_ATTEMPTS_MAX):
        try:
            return await answer_of(look() if answer is None else answer)
        except QueueGone:
            answer = None
            await channel.vhost.settle_queue(name)
    raise QueueGone(describe_queue(name, channel.vhost.name))
