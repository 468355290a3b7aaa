"""A queue's messages: what happens to them, wherever they are. RabbitMQ's name for it.

Where they are, in memory or on disk, is the base class's business (paged_messages.py). Here they
come and go, and what is not in memory is read when it is needed, or a little before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, Final

from warren.queues.backing_figures import BackingFigures, OperationRates
from warren.queues.boundary import PENDING, TAKEN, Publisher
from warren.storage.queue.browsing import browse
from warren.storage.queue.collecting import Piece, collect
from warren.storage.queue.collecting_newer import collect_newer
from warren.storage.queue.paged_messages import PagedMessages, is_bodiless, runs_of_sequences
from warren.storage.queue.paging_host import QueueIndexClient, Reader
from warren.storage.queue.sub_queues import sub_queues
from warren.wire.codec import Message, QueuedMessage

READ_AHEAD_BYTES: Final = 1_048_576
READ_AHEAD_GROWTH: Final = 4
"""A queue's first read is small, since at a start every queue looks at its head; then it grows."""
READ_AHEAD_MESSAGES_MIN: Final = 64

_VOLATILE = 0


class VariableQueue(PagedMessages):
    """`on_deleted` is called when nothing of the queue is needed any more."""

    def __init__(
        self, make_index: Callable[[], QueueIndexClient], is_durable: bool, reader: Reader
    ) -> None:
        super().__init__(make_index, is_durable, reader)
        self.on_deleted: Callable[[], None] | None = None
        self.rates: OperationRates | None = None

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        queued = QueuedMessage(message, self.next_sequence, expires_at_ms)
        self.next_sequence += 1
        self.length += 1
        queued.size = len(message.body)
        self.ready_bytes += queued.size
        if self._is_persistent(queued):
            self.persistent_count += 1
            self.persistent_bytes += queued.size
        outcome = self._store(queued, publisher, sequence)
        if self.keep < 0 and self.delta_count == 0 and not self.back:
            self.front.append(queued)
        else:
            self.append_back(queued)
        return outcome

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        queued.sequence = self.next_sequence
        self.next_sequence += 1
        queued.size = len(queued.message.body)
        self._count_unacked(queued)
        return self._store(queued, publisher, sequence)

    def mark_redelivered(self, message: Message) -> None:
        tail: Any = self.back if self.back else self.front
        if tail and tail[-1].message is message:
            tail[-1].redelivered = True
        if self.index is not None:
            # It may leave memory, or have left it: what is read back is marked by its number.
            self.index.redelivered_below = self.next_sequence

    def _is_persistent(self, queued: QueuedMessage) -> bool:
        return self.is_durable and queued.message.properties.persistent

    def _count_unacked(self, queued: QueuedMessage) -> None:
        self.unacked_count += 1
        self.unacked_bytes += queued.size
        if self._is_persistent(queued):
            self.unacked_persistent_count += 1
            self.unacked_persistent_bytes += queued.size

    def _count_settled(self, queued: QueuedMessage) -> None:
        self.unacked_count -= 1
        self.unacked_bytes -= queued.size
        if self._is_persistent(queued):
            self.unacked_persistent_count -= 1
            self.unacked_persistent_bytes -= queued.size

    def _store(self, queued: QueuedMessage, publisher: Publisher | None, sequence: int) -> int:
        """Have it written if it must survive."""
        if not self._is_persistent(queued):
            return TAKEN
        if publisher is not None:
            queued.publisher = publisher
            queued.publisher_sequence = sequence
        if self.index is None:
            self.indexed()
        self.index.publish(queued)
        return TAKEN if publisher is None else PENDING

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        """None although `length` is not zero: the head is being read; `on_loaded` will tell."""
        queued = self._take_head()
        if queued is None:
            return None
        self.length -= 1
        self.ready_bytes -= queued.size
        if self._is_persistent(queued):
            self.persistent_count -= 1
            self.persistent_bytes -= queued.size
        if ack_required:
            self._count_unacked(queued)
        elif queued.state != _VOLATILE:
            assert self.index is not None, "what is on its way to the disk has an index"
            self.index.ack([queued])
        return queued

    def _take_head(self) -> QueuedMessage | None:
        if self.returned:
            return heappop(self.returned)[1]
        if not self.front and not self._is_refilled():
            return None
        queued: QueuedMessage = self.front.popleft()
        if is_bodiless(queued):
            self.front.appendleft(queued)
            self.load_bodies()
            return None
        if self.delta_count != 0 and len(self.front) < READ_AHEAD_MESSAGES_MIN:
            self.load()
        return queued

    def _is_refilled(self) -> bool:
        """`front` is empty: whether there is something in it now."""
        self.refill()
        if self.front:
            return True
        if self.delta_count != 0:
            self.load()
        return False

    def head(self) -> QueuedMessage | None:
        """None if the queue is empty, or if its head is still being read."""
        if self.returned:
            return self.returned[0][1]
        if not self.front and not self._is_refilled():
            return None
        queued = self.front[0]
        if is_bodiless(queued):
            self.load_bodies()
            return None
        return queued

    def ack(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            self._count_settled(queued)
        assert self.unacked_count >= 0, "more acknowledged than delivered"
        if self.index is not None:
            self.index.ack(run)

    def requeue(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            self._count_settled(queued)
            heappush(self.returned, (queued.sequence, queued))
            self.ready_bytes += queued.size
            if self._is_persistent(queued):
                self.persistent_count += 1
                self.persistent_bytes += queued.size
        self.length += len(run)
        assert self.unacked_count >= 0, "more returned than delivered"

    def purge(self) -> int:
        count = self.length
        if self.index is not None:
            self.index.ack(self.in_memory())
            if self.delta_count:
                self.index.ack_range(self.delta_start, self.delta_end)
        self._forget()
        return count

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        return await browse(self, self._reader, offset, limit, bytes_max)

    def collect(
        self, below: int, unacked: Iterable[QueuedMessage], done: Callable[[Piece], None]
    ) -> None:
        """The newest messages older than `below`, and of `unacked`, which clients have."""
        collect(self, self._reader, below, unacked, done)

    def collect_newer(
        self, start: int, unacked: Iterable[QueuedMessage], done: Callable[[Piece], None]
    ) -> None:
        """The oldest messages from `start` on, and of `unacked`, which clients have."""
        collect_newer(self, self._reader, start, unacked, done)

    def delete(self) -> None:
        self._forget()
        if self.on_deleted is not None:
            self.on_deleted()

    def _forget(self) -> None:
        self.returned.clear()
        self.front.clear()
        self.leaving.clear()
        self.back.clear()
        self.leaving_bytes = self.back_bytes = self.given_count = self.given_bytes = 0
        self.delta_count = self.delta_bytes = 0
        self.length = self.ready_bytes = 0
        self.persistent_count = self.persistent_bytes = 0
        self.release_credit()
        self.epoch += 1
        self.is_loading = False

    def recover(self, start: int, end: int, count: int, body_bytes: int) -> None:
        """After a start: so many messages, of these sequence numbers, are in segments."""
        assert self.length == 0, "a queue is recovered before it is used"
        self.indexed()
        self.delta_start, self.delta_end, self.delta_count = start, end, count
        self.delta_bytes = body_bytes
        self.length = count
        self.ready_bytes = body_bytes
        self.persistent_count, self.persistent_bytes = count, body_bytes

    def recover_recent(self, entries: list[QueuedMessage], next_sequence: int) -> None:
        """After `recover`: these, newer ones, are in the journal only, and thus in memory."""
        self.indexed()
        for queued in entries:
            self.append_back(queued)
        body_bytes = sum([queued.size for queued in entries])
        self.length += len(entries)
        self.ready_bytes += body_bytes
        self.persistent_count += len(entries)
        self.persistent_bytes += body_bytes
        self.next_sequence = next_sequence
        self.check()

    def delivered_runs(self) -> list[tuple[int, int]]:
        """What somebody has had before, as (first, count): a clean stop writes it down."""
        had = [queued.sequence for queued in self.in_memory() if queued.redelivered]
        return runs_of_sequences(sorted(had))

    def figures(self) -> BackingFigures:
        return BackingFigures(
            ready=self.length,
            ready_bytes=self.ready_bytes,
            unacked=self.unacked_count,
            unacked_bytes=self.unacked_bytes,
            persistent=self.persistent_count + self.unacked_persistent_count,
            persistent_bytes=self.persistent_bytes + self.unacked_persistent_bytes,
            paged_out=self.delta_count,
            paged_out_bytes=self.delta_bytes,
        )

    def status(self, now_ms: int) -> dict[str, Any]:
        if self.rates is None:
            self.rates = OperationRates()
        head = self.peek()
        return {
            **self.rates.sample(now_ms, self.next_sequence, self.length, self.unacked_count),
            **sub_queues(self),
            "len": self.length,
            "mode": "lazy" if self.is_lazy else "default",
            "next_deliver_seq_id": self.next_sequence if head is None else head.sequence,
            "next_seq_id": self.next_sequence,
            "target_ram_count": "infinity" if self.keep < 0 or self.is_lazy else self.keep,
            "version": 1,
        }

    def peek(self) -> QueuedMessage | None:
        if self.returned:
            return self.returned[0][1]
        first = self.front or self.leaving
        if not first and self.delta_count == 0:
            first = self.back
        return first[0] if first and not is_bodiless(first[0]) else None

    def is_in_flow(self, now_ms: int) -> bool:
        return self.flow.is_in_flow(now_ms)

    def in_memory(self) -> list[QueuedMessage]:
        returned = [queued for _, queued in self.returned]
        return [*returned, *self.front, *self.leaving, *self.back]

    def load(self) -> None:
        """Read the next piece of delta into `front`, unless that is under way."""
        if self.is_loading:
            return
        self._stay()
        self.is_loading = True
        epoch = self.epoch
        span = (self.delta_start, self.delta_end)
        self._reader.read(
            self.indexed(), span, self._grow(), lambda entries: self._loaded(entries, epoch)
        )

    def _grow(self) -> int:
        """How much to read now; more the next time."""
        size = self.read_ahead_bytes
        self.read_ahead_bytes = min(READ_AHEAD_BYTES, size * READ_AHEAD_GROWTH)
        return size

    def load_bodies(self) -> None:
        """After a start, messages may be known whose bodies are in the message store only."""
        if self.is_loading:
            return
        self.is_loading = True
        epoch = self.epoch
        room = self._grow()
        wanted = []
        for queued in self.front:
            if room <= 0:
                break
            if is_bodiless(queued):
                wanted.append(queued)
            room -= queued.size
        self._reader.read_bodies(self.indexed(), wanted, lambda: self._have_bodies(wanted, epoch))

    def _have_bodies(self, wanted: list[QueuedMessage], epoch: int) -> None:
        if epoch != self.epoch:
            return
        self.is_loading = False
        lost = [queued for queued in wanted if is_bodiless(queued)]
        if lost:
            self.indexed().ack(lost)
            for queued in lost:
                self.front.remove(queued)
                self.ready_bytes -= queued.size
            self.length -= len(lost)
        self._have_loaded()

    def _loaded(self, entries: list[QueuedMessage], epoch: int) -> None:
        if epoch != self.epoch:
            return
        self.is_loading = False
        if entries:
            self.front.extend(entries)
            self.delta_start = self.loaded_below = entries[-1].sequence + 1
            self.delta_count -= len(entries)
            self.delta_bytes -= sum([queued.size for queued in entries])
        if not entries or self.delta_start >= self.delta_end:
            # What is still counted could not be read; the index has reported the loss.
            self.length -= self.delta_count
            self.ready_bytes -= self.delta_bytes
            self.delta_count = self.delta_bytes = 0
        self._have_loaded()

    def _have_loaded(self) -> None:
        self.persistent_count = min(self.persistent_count, self.length)
        self.persistent_bytes = min(self.persistent_bytes, self.ready_bytes)
        self.page_out()
        self.check()
        if self.on_loaded is not None:
            self.on_loaded()
