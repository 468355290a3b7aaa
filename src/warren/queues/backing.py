"""The backing queue: where a queue's messages are, behind one interface.

The names are RabbitMQ's (rabbit_backing_queue). A queue decides what happens to messages; its
backing keeps them: in memory (`MemoryBacking`), on disk (`VariableQueue`), by priority
(`PriorityBacking`, which has one level for each), with the ids of a deduplicating queue beside them
(`IdKeepingBacking`), with mirrors on other nodes (`MasterBacking`), or in the log of a stream
(`StreamBacking`, `StreamMaster`).

All of them keep these rules; tests/contract/test_backing_contract.py tries each rule with each of
them, and has the table of those that a rule does not concern.

**Numbers and order.**

1. A message gets the next sequence number of its level when it enters (`publish`,
   `publish_delivered`), and `next_sequence_of` says before which one that is. No number is given
   twice, not even after a purge.
2. `fetch` takes from the highest level that has a message; within a level, in the order of
   sequence numbers.
3. `requeue` puts messages back to where they were, whatever order they come back in: before
   everything of their level with a higher number.
4. `length` and `ready_bytes` count what is ready, `unacked_count` what was fetched or published as
   delivered and is neither acknowledged nor requeued. They are right whenever a method returns.
5. `fetch` and `head` return None if nothing is ready, or if the head is not at hand: it is being
   read from a disk, or this node may not deliver. Then the queue is told (`Queue.loaded`) when to
   ask again. `head` takes nothing.

**Confirms.** `publish` and `publish_delivered` say what became of the message for its publisher:

6. TAKEN: the message is as safe as it asked to be. The publisher is told nothing more. A message
   that has no publisher, or that need not survive, is TAKEN, unless other nodes must have it.
7. PENDING: the publisher is told later, by `confirmed(sequence)` or `rejected(sequence)`, where
   `sequence` is the publisher's own number of the message. It is told exactly once (but see
   `RetryingPublisher`), and never before the method that says PENDING has returned.
8. A PENDING message is confirmed in these circumstances, and in no others:
   (1) the disk of this node has it, synced, so that a start would find it;
   (2) it was acknowledged, or fetched without an acknowledgement being required: nobody needs it;
   (3) it was purged: nobody needs it;
   (4) its queue was deleted: nobody needs it.
   A master waits for its mirrors besides: in (1) to (3) until every mirror of the in-sync set has
   heard of the message, and has it on disk where the master must.
9. A PENDING message is rejected only if a disk refuses it. It stays in the queue nevertheless,
   and may be delivered; a stream drops it. REJECTED as the answer to `publish` means that the
   backing did not take the message: a stream answers so while its disk takes nothing.
10. Messages of one level that become safe by (1) are confirmed in the order in which they were
    published.

**Leaving.**

11. `purge` removes all that is ready and returns how many that were. What is unacknowledged is not
    concerned: it can be acknowledged, or requeued, and is then ready again.
12. `delete` removes everything; afterwards nobody waits for an answer.
13. `ack` makes messages leave for good, in whatever order they come.

**Looking.**

14. `browse`, `peek`, `figures` and `status` change nothing.
15. `set_lazy` changes where messages are, and neither order nor counts.
16. `mark_redelivered` marks the newest message of its level; the mark is there when it is fetched.
17. `drop_unacked` changes neither order nor counts: what it took the body of can be acknowledged as
    before, and what is requeued is fetched with its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from warren.queues.backing_figures import BackingFigures
from warren.queues.boundary import Publisher
from warren.wire.codec import Message, QueuedMessage

EMBEDS_ALL: Final = 1 << 62


class BackingQueue:
    length: int
    """Messages that are ready, not counting those a client has and has not acknowledged."""
    ready_bytes: int
    """Body bytes of the same."""
    unacked_count: int

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        """Append at the tail of the message's level; returns TAKEN, PENDING or REJECTED."""
        raise NotImplementedError

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        """Take a message that a consumer gets at once, straight to unacknowledged.

        The queue must be empty. `queued` gets its sequence number here. Returns TAKEN or PENDING.
        """
        raise NotImplementedError

    def publish_along(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        """`publish_delivered`, to every node together with what was published before it."""
        return self.publish_delivered(queued, publisher, sequence)

    def before_batch(self, tell: Callable[[], None]) -> None:
        """Have `tell` called before other nodes get what was published, to publish along with it.

        A backing that knows of no other nodes never calls it.
        """

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
        """Mark a message that was just published: a client may have had it before."""
        raise NotImplementedError

    def purge(self) -> int:
        """Remove what is ready; returns how many. Unacknowledged messages stay valid."""
        raise NotImplementedError

    def is_discarding(self) -> bool:
        """True while the disk has not been told yet of all that was purged."""
        return False

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        """Ready messages from the `offset`th on, to be looked at and nothing else.

        No more than `limit`, and no more bytes of bodies than `bytes_max` but for the last. Fewer
        than that does not mean that there are no more, unless there are none.
        """
        raise NotImplementedError

    # Bodies that clients have, and that need not be in memory meanwhile.

    def drop_unacked(self, run: list[QueuedMessage]) -> None:
        """Let go of the bodies of unacknowledged messages, as far as a disk has them.

        Route key and properties stay. What should leave and is on no disk is written there first,
        and leaves when it is asked for again.
        """

    def load_unacked(
        self, run: list[QueuedMessage], done: Callable[[list[QueuedMessage]], None]
    ) -> None:
        """Call `done` with those of `run` that have their bodies, when these are in memory.

        At once if they are; the others are lost.
        """
        done(run)

    # Levels: each numbers its messages by itself.

    def level_number(self, message: Message) -> int:
        """Return the level that the message belongs to; 0 where there is one level only."""
        return 0

    def items(self) -> Iterable[tuple[int, Level]]:
        """The levels that there are, by number."""
        raise NotImplementedError

    def next_sequence_of(self, message: Message) -> int:
        """Return the sequence number that the message gets if it is published now."""
        raise NotImplementedError

    def used_below(self) -> int:
        """Return a number that is higher than every sequence number given so far."""
        return max((level.next_sequence for _, level in self.items()), default=0)

    def local(self) -> BackingQueue:
        """The backing that keeps the messages on this node: another one if this replicates it."""
        return self

    # Figures, and the rest of a queue's life.

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

    def is_in_flow(self, now_ms: int, memory_ms: int) -> bool:
        """True if publishers were held back because of this queue, now or `memory_ms` ago."""
        return False

    def disk_counts(self) -> tuple[int, int]:
        """Return how many messages were read from the disk, and written to it, since the start."""
        return 0, 0

    def delete(self) -> None:
        """The queue is gone, and everything it had."""
        self.purge()


class Level(BackingQueue):
    """A backing whose messages have one run of sequence numbers: a queue, or one of its levels."""

    next_sequence: int
    """The number that the next message gets."""

    def embeds_below(self) -> int:
        """Number of bytes from which on a message is kept elsewhere than the messages around it."""
        return EMBEDS_ALL

    def items(self) -> Iterable[tuple[int, Level]]:
        return [(0, self)]

    def next_sequence_of(self, message: Message) -> int:
        return self.next_sequence
