"""The backing queue: where a queue's messages are, behind one interface.

The names are RabbitMQ's (rabbit_backing_queue). A queue decides what happens to messages; its
backing keeps them: in memory here, on disk or replicated in others, by priority in one that has
several of the same kind inside.

Every message that enters gets the next sequence number of its queue, never used again. Order is
the order of sequence numbers, also for messages that were delivered and come back.

A backing that cannot make a message safe at once answers PENDING and calls the publisher's
`confirmed(sequence)` when it has; `sequence` here is the publisher's own number.
"""

from __future__ import annotations

from typing import Any

from warren.queues.backing_figures import BackingFigures
from warren.queues.boundary import Publisher
from warren.wire.codec import Message, QueuedMessage


class BackingQueue:
    length: int
    """Messages that are ready, not counting those a client has and has not acknowledged."""
    ready_bytes: int
    """Body bytes of the same."""
    unacked_count: int
    outcome: int
    """TAKEN or PENDING: what the last `publish_delivered` came to."""

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        """Append at the tail; TAKEN or PENDING (see boundary)."""
        raise NotImplementedError

    def publish_delivered(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> QueuedMessage:
        """The queue is empty and a consumer gets it at once: straight to unacknowledged."""
        raise NotImplementedError

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        """Take the head: unacknowledged until `ack` or `requeue`, or for good."""
        raise NotImplementedError

    def head(self) -> QueuedMessage | None:
        """Look at the head without taking it."""
        raise NotImplementedError

    def ack(self, run: list[QueuedMessage]) -> None:
        raise NotImplementedError

    def own(self, run: list[QueuedMessage]) -> list[QueuedMessage]:
        """Those that were fetched from here; of a mirrored queue, clients may have others, too."""
        return run

    def requeue(self, run: list[QueuedMessage]) -> None:
        """Back to where they were: before everything with a higher sequence number."""
        raise NotImplementedError

    def mark_redelivered(self, message: Message) -> None:
        """If that is the newest message here, somebody may have had it before."""
        raise NotImplementedError

    def purge(self) -> int:
        """Forget what is ready; returns how many. Unacknowledged messages stay valid."""
        raise NotImplementedError

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        """Ready messages from the `offset`th on, to be looked at and nothing else.

        No more than `limit`, and no more bytes of bodies than `bytes_max` but for the last. Fewer
        than that does not mean that there are no more, unless there are none.
        """
        raise NotImplementedError

    def set_lazy(self, lazy: bool) -> None:
        """Lazy: what the disk has does not stay in memory. Without a disk that means nothing."""

    def figures(self) -> BackingFigures:
        """How many messages are where. Costs no more than a few additions."""
        return BackingFigures(
            ready=self.length, ready_bytes=self.ready_bytes, unacked=self.unacked_count
        )

    def status(self, now_ms: int) -> dict[str, Any]:
        """RabbitMQ's backing_queue_status."""
        return {"len": self.length, "mode": "default", "version": 1}

    def peek(self) -> QueuedMessage | None:
        """The head, if it is at hand; nothing is read for it."""
        return self.head()

    def is_in_flow(self, now_ms: int) -> bool:
        """Whether what it hands on was held up, now or lately."""
        return False

    def delete(self) -> None:
        """The queue is gone, and everything it had."""
        self.purge()
