"""The boundary between channels and queues: all that a channel may ask of a queue.

Routes, consumers and deliveries hold an `AbstractQueue` and never know more. There are seven kinds:
the classic queue of this node (`Queue`), one that takes each id once (`DeduplicatingQueue`), a
stream (`StreamQueue`), a queue whose master is another node (`RemoteQueue`), the two ends of direct
reply-to (`ReplyConsumer`, `ReplyDesk`), which only take publishes, and a queue that is merely known
(`StoredQueue`), which can only be deleted.

There is one vocabulary for all of them. A question (`fetch`, `counts`, `purge`, `start_consumer`)
is answered by a value if the queue has the answer at hand, and by a coroutine if it takes another
node or a disk to know: `answer_of` awaits what has to be awaited. A queue of this node whose head
is in memory answers by value, so that nothing on the way of a message waits. A question to a queue
that has another master by now, or none, raises `QueueGone`: look the queue up and ask again.

The rules, which tests/contract/test_queue_contract.py tries with every kind:

1. All that one channel asks of a queue is done in the order in which it is asked.
2. `publish` answers TAKEN (as safe as the message asked to be), PENDING (`confirmed` or `rejected`
   follows, exactly once, and not before `publish` has returned) or REJECTED (the queue does not
   have the message). Without a publisher nobody is told anything.
3. `fetch` takes the oldest message that is ready (of the highest priority) and tells how many are
   left; the message is then unacknowledged.
4. An unacknowledged message is settled once: `acked` and `rejected` remove it, `requeued` puts it
   back to its original position, marked as redelivered.
5. `counts` are those of the whole queue, whichever node is asked.
6. `purge` removes what is ready and returns how many that were. Unacknowledged messages stay.
7. `start_consumer` calls `started` once, before the first delivery, or raises why not.
8. A consumer gets messages in order, none while it is parked, none after `remove_consumer`; what
   it has then stays unacknowledged.
9. `delete_if` deletes a queue unless it is not empty, or in use, where the caller minds that; it
   returns the number of messages that were ready.
10. After `delete` consumers have been told, no publisher waits, and settlements mean nothing.
11. What was published by `publish_again` is marked as redelivered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.queues.consumers import Consumer
    from warren.queues.settings import QueueSettings

# What became of a publish.
TAKEN: Final = 0
PENDING: Final = 1
REJECTED: Final = 2

T = TypeVar("T")

Answer: TypeAlias = T | Coroutine[Any, Any, T]
"""An answer that is there, or has to be awaited."""
Until: TypeAlias = Callable[[Callable[[Callable[[], None]], None]], Awaitable[None]]
"""Waits until the callback that it hands to its argument is called."""


async def answer_of(answer: Answer[T]) -> T:
    """Await the answer if it has to be awaited."""
    return await answer if isinstance(answer, Coroutine) else answer


class Publisher(Protocol):
    """The publisher of a message that wants to hear of it: a channel in confirm mode, say."""

    @property
    def origin(self) -> str | None:
        """The node that numbers these publishes, and the life of it; None: a client of this node.

        With an origin, `sequence` is the number that every copy of a mirrored queue knows.
        """
        ...

    def confirmed(self, sequence: int) -> None: ...

    def rejected(self, sequence: int) -> None: ...


class RetryingPublisher:
    """One for whom a message that the disk refuses is not over: it is told each time, and waits.

    `confirmed` comes when the message is safe after all, or not needed any more.
    """

    @property
    def origin(self) -> str | None:
        """Publishes that a master has numbered: mirrors ask for no other number."""
        return None

    def confirmed(self, sequence: int) -> None:
        raise NotImplementedError

    def rejected(self, sequence: int) -> None:
        raise NotImplementedError


class Fetched(NamedTuple):
    """The answer to basic.get: a message or none, and how many are left."""

    queued: QueuedMessage | None
    messages_left: int


class QueueCounts(NamedTuple):
    """How many messages are ready in a queue, and how many consumers it has, wherever they are."""

    ready: int
    consumers: int


class AbstractQueue:
    """Everything is done in the order it is asked for; nothing here blocks."""

    record: QueueRecord
    counters: MessageCounters
    settings: QueueSettings
    is_deleted: bool

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        """Take a message; returns TAKEN, PENDING or REJECTED."""
        raise NotImplementedError

    def publish_again(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        """Take a message that a client may have had from a former master of the queue."""
        return self.publish(message, publisher, sequence)

    def acked(self, run: list[QueuedMessage]) -> None:
        """Remove messages that a client has acknowledged."""
        raise NotImplementedError

    def requeued(self, run: list[QueuedMessage]) -> None:
        """Put messages back to their original positions, to be delivered again."""
        raise NotImplementedError

    def begin_return(self) -> None:
        """Deliver nothing until `end_return`: what a client gives back comes in several parts."""

    def end_return(self) -> None:
        """Go on delivering: all parts have come."""

    def rejected(self, run: list[QueuedMessage]) -> None:
        """Remove messages that a client refuses: dead-letter them if the queue says where."""
        raise NotImplementedError

    def consumer_ready(self, consumer: Consumer) -> None:
        """Go on with a parked consumer: it can take messages again."""
        raise NotImplementedError

    def start_consumer(self, consumer: Consumer, started: Callable[[], None]) -> Answer[None]:
        """Take a consumer, or raise why not; `started` is called before its first delivery."""
        raise NotImplementedError

    def remove_consumer(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def fetch(self, until: Until) -> Answer[Fetched]:
        """Take the head, for basic.get; the caller becomes its holder."""
        raise NotImplementedError

    def counts(self) -> Answer[QueueCounts]:
        """Return how many messages are ready and how many consumers there are; counts as use."""
        raise NotImplementedError

    def purge(self) -> Answer[int]:
        """Remove all messages that are ready; returns how many."""
        raise NotImplementedError

    def delete_if(
        self, if_unused: bool, if_empty: bool, remove: Callable[[], Awaitable[None]]
    ) -> Coroutine[Any, Any, int]:
        """Have the queue deleted on these conditions; returns how many messages were ready.

        `remove` takes the queue out of the topology, where this node is the one to do that.
        """
        raise NotImplementedError

    def pump(self) -> None:
        """Deliver while there is something ready and somebody to take it."""
        raise NotImplementedError

    def touch(self) -> None:
        """Note that the queue is used: x-expires counts from now."""
        raise NotImplementedError

    def apply_settings(self, settings: QueueSettings) -> None:
        """Go by other settings: a policy has changed."""
        raise NotImplementedError

    def delete(self) -> None:
        """End the queue, which is gone from the topology."""
        raise NotImplementedError

    def require_available(self) -> None:
        """Raises if the node that has the queue is down."""


class Holder:
    """The holder of an unacknowledged message: a consumer, or a channel that used basic.get."""

    queue: AbstractQueue
    unacked: int

    def __init__(self, queue: AbstractQueue) -> None:
        self.queue = queue
        self.unacked = 0
        self.is_parked = False
        self.awaits_room = False
        self.counts_for_prefetch = False

    def wake(self) -> None:
        """Called when a settled delivery may have made room; only consumers can be parked."""
        raise AssertionError("a getter is never parked")
