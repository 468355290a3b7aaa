"""What a stream's queue keeps its messages in: a log, and what is on its way there.

A stream gives nothing away and takes nothing back, so of a backing queue's methods only `publish`
means much. Publishes are gathered; a commit takes what has gathered by then (`take`), and when that
is safe (`committed`) the publishers are told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from warren.flow.credit import Credit
from warren.flow.states import FlowRecord
from warren.queues.backing import BackingQueue, Level
from warren.queues.backing_figures import BackingFigures
from warren.queues.boundary import PENDING, REJECTED, TAKEN, Publisher
from warren.wire.codec import Message, QueuedMessage

# One commit takes so much of a stream: what a loop encodes in a few milliseconds.
BATCH_BYTES: Final = 8 * 1_048_576
# What a record costs beside its body, roughly.
RECORD_BYTES: Final = 64


class StreamBacking(BackingQueue):
    """`length` and `ready_bytes` are those of what is safe and can be read."""

    def __init__(self, credit: Credit, mark: Callable[[], None]) -> None:
        self.length = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.flow: FlowRecord = FlowRecord()
        self.credit = credit
        self.is_refusing = False
        self.messages: list[Message] = []
        self.publishers: list[Publisher | None] = []
        self.sequences: list[int] = []
        self.gathered_bytes = 0
        self.flight_messages: list[Message] = []
        self.flight_publishers: list[Publisher | None] = []
        self.flight_sequences: list[int] = []
        self.flight_bytes = 0
        self._mark = mark
        self.on_deleted: Callable[[], None] | None = None
        self.look: Callable[[int, int, int], Awaitable[list[QueuedMessage]]] | None = None

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        if self.is_refusing:
            return REJECTED
        if not self.messages:
            self._mark()
        self.messages.append(message)
        self.publishers.append(publisher)
        self.sequences.append(sequence)
        size = len(message.body) + RECORD_BYTES
        self.gathered_bytes += size
        self.credit.charge(size, self.flow)
        return TAKEN if publisher is None else PENDING

    def take(self) -> list[Message]:
        """What goes with the next commit; more than BATCH_BYTES only if one message is that."""
        assert not self.flight_messages, "one commit at a time"
        count = self._batch_length()
        self.flight_messages = self.messages[:count]
        self.flight_publishers = self.publishers[:count]
        self.flight_sequences = self.sequences[:count]
        self.messages = self.messages[count:]
        self.publishers = self.publishers[count:]
        self.sequences = self.sequences[count:]
        self.gathered_bytes -= self.flight_bytes
        return self.flight_messages

    def _batch_length(self) -> int:
        if self.gathered_bytes <= BATCH_BYTES:
            self.flight_bytes = self.gathered_bytes
            return len(self.messages)
        count = 0
        total = 0
        for message in self.messages:
            size = len(message.body) + RECORD_BYTES
            if total + size > BATCH_BYTES and count:
                break
            total += size
            count += 1
        self.flight_bytes = total
        return count

    def committed(self) -> None:
        publishers, sequences = self.flight_publishers, self.flight_sequences
        self.land()
        for position in range(len(publishers)):
            publisher = publishers[position]
            if publisher is not None:
                publisher.confirmed(sequences[position])

    def land(self) -> None:
        """What was under way is safe here."""
        self.credit.release(self.flight_bytes)
        self.flight_messages = []
        self.flight_publishers = []
        self.flight_sequences = []
        self.flight_bytes = 0

    def put_back(self) -> None:
        """The commit failed: what it had goes with the next one."""
        self.messages = self.flight_messages + self.messages
        self.publishers = self.flight_publishers + self.publishers
        self.sequences = self.flight_sequences + self.sequences
        self.gathered_bytes += self.flight_bytes
        self.flight_messages = []
        self.flight_publishers = []
        self.flight_sequences = []
        self.flight_bytes = 0

    def refuse(self) -> None:
        """The disk takes nothing: whoever waits is told so, and whoever comes."""
        self.is_refusing = True
        for publisher, sequence in self.drop_gathered():
            publisher.rejected(sequence)

    def drop_gathered(self) -> list[tuple[Publisher, int]]:
        """Nothing of it will be written; those who wait, and under which numbers."""
        pairs = zip(self.publishers, self.sequences, strict=True)
        waiting = [(publisher, number) for publisher, number in pairs if publisher is not None]
        self.messages, self.publishers, self.sequences = [], [], []
        self.credit.release(self.gathered_bytes)
        self.gathered_bytes = 0
        return waiting

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        return None

    def head(self) -> QueuedMessage | None:
        return None

    def ack(self, run: list[QueuedMessage]) -> None:
        """Nothing goes."""

    def requeue(self, run: list[QueuedMessage]) -> None:
        """Nothing had gone."""

    def mark_redelivered(self, message: Message) -> None:
        """Records are read as often as somebody likes, and have no such mark."""

    def items(self) -> Iterable[tuple[int, Level]]:
        """None: it is the log that numbers records, by offsets."""
        return ()

    def purge(self) -> int:
        return 0

    def figures(self) -> BackingFigures:
        return BackingFigures(
            ready=self.length,
            ready_bytes=self.ready_bytes,
            persistent=self.length,
            persistent_bytes=self.ready_bytes,
            paged_out=self.length,
            paged_out_bytes=self.ready_bytes,
        )

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        assert self.look is not None, "set by its log"
        return await self.look(offset, limit, bytes_max)

    def is_in_flow(self, now_ms: int, memory_ms: int) -> bool:
        return self.flow.is_in_flow(now_ms, memory_ms)

    def delete(self) -> None:
        """What was under way has reached a queue that is no more, which is as good as any."""
        self.length = 0
        self.ready_bytes = 0
        for publisher, sequence in self.drop_gathered():
            publisher.confirmed(sequence)
        if self.on_deleted is not None:
            self.on_deleted()
