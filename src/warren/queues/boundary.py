"""What a channel may ask of a queue: the boundary between protocol and queues.

Routes, consumers and deliveries hold an `AbstractQueue` and never know more. Today there is one
kind, the `Queue` of this node; a queue mastered on another node, or one with mirrors, is another
implementation behind the same methods, and nothing on the data path changes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.queues.consumers import Consumer
    from warren.queues.settings import QueueSettings

# What became of a publish. PENDING: the queue will tell the publisher by `confirmed()`.
TAKEN: Final = 0
PENDING: Final = 1
REJECTED: Final = 2


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


class PatientPublisher:
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
    """What basic.get found: a message or none, and how many are left."""

    queued: QueuedMessage | None
    messages_left: int


class AbstractQueue:
    """Everything is done in the order it is asked for; nothing here blocks.

    What a queue of another node is asked has to be waited for: where `is_remote` is true, the
    coroutines take the place of `get`, `purge` and the counts.
    """

    record: QueueRecord
    counters: MessageCounters
    settings: QueueSettings
    is_deleted: bool
    is_remote: bool

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        """Take a message; says TAKEN, PENDING or REJECTED."""
        raise NotImplementedError

    def publish_again(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        """As `publish`: one that somebody may have had from a former home of the queue."""
        return self.publish(message, publisher, sequence)

    def acked(self, run: list[QueuedMessage]) -> None:
        """The client has these for good."""
        raise NotImplementedError

    def requeued(self, run: list[QueuedMessage]) -> None:
        """Back to their original positions, to be delivered again."""
        raise NotImplementedError

    def rejected(self, run: list[QueuedMessage]) -> None:
        """The client wants none of these: dead-lettered if the queue says where, else dropped."""
        raise NotImplementedError

    def consumer_ready(self, consumer: Consumer) -> None:
        """A parked consumer can take messages again."""
        raise NotImplementedError

    def start_consumer(
        self, consumer: Consumer, started: Callable[[], None]
    ) -> Coroutine[Any, Any, None] | None:
        """Take a consumer, or raise why not; `started` is called before its first delivery."""
        raise NotImplementedError

    def remove_consumer(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def get(self) -> QueuedMessage | None:
        """The head, for basic.get; the caller becomes its holder.

        None although `message_count` is not zero means that it is being read from a disk.
        """
        raise NotImplementedError

    def when_loaded(self, tell: Callable[[], None]) -> None:
        """Call when what `get` did not find has been read."""
        raise NotImplementedError

    def purge(self) -> int:
        raise NotImplementedError

    def pump(self) -> None:
        """Deliver while there is something ready and somebody to take it."""
        raise NotImplementedError

    def touch(self) -> None:
        """Somebody uses the queue: x-expires counts from now."""
        raise NotImplementedError

    def apply_settings(self, settings: QueueSettings) -> None:
        """The policy has changed."""
        raise NotImplementedError

    def delete(self) -> None:
        """The queue is gone from the topology."""
        raise NotImplementedError

    def require_home(self) -> None:
        """Raises if the node that the queue lives on is down."""

    async def fetch(self) -> Fetched:
        raise NotImplementedError

    async def counts(self) -> tuple[int, int]:
        """Ready messages and consumers."""
        raise NotImplementedError

    async def purge_at_home(self) -> int:
        raise NotImplementedError

    async def delete_at_home(self, if_unused: bool, if_empty: bool) -> int:
        raise NotImplementedError

    @property
    def message_count(self) -> int:
        raise NotImplementedError

    @property
    def consumer_count(self) -> int:
        raise NotImplementedError


class Holder:
    """Who has an unacknowledged message: a consumer, or a channel that used basic.get."""

    queue: Any
    unacked: int

    def __init__(self, queue: AbstractQueue) -> None:
        self.queue = queue
        self.unacked = 0
        self.is_parked = False
        self.counts_for_prefetch = False

    def wake(self) -> None:
        """Called when a settled delivery may have made room; only consumers can be parked."""
        raise AssertionError("a getter is never parked")
