"""A queue's messages: what happens to them, wherever they are. RabbitMQ's name for it.

Where they are, in memory or on disk, is the base class's business (paged_messages.py). Here they
come and go, and what is not in memory is read when it is needed, or a little before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any, Final

from warren.queues.backing_figures import BackingFigures, OperationRates
from warren.queues.boundary import PENDING, TAKEN, Publisher
from warren.queues.delivery_limit import with_delivery_count
from warren.storage.index.states import DEAD, STORED
from warren.storage.queue.browsing import browse
from warren.storage.queue.collecting import Piece, collect
from warren.storage.queue.collecting_newer import collect_newer
from warren.storage.queue.discarding import Container, Discarding
from warren.storage.queue.message_tiers import is_bodiless, is_body_out, runs_of_sequences
from warren.storage.queue.paged_messages import PagedMessages
from warren.storage.queue.paging_host import MESSAGE_OVERHEAD_BYTES, QueueIndexClient, Reader
from warren.storage.queue.recalling import recall
from warren.storage.queue.sub_queues import sub_queues
from warren.wire.codec import Message, QueuedMessage

READ_AHEAD_BYTES: Final = 1_048_576
READ_AHEAD_GROWTH: Final = 4
"""A queue's first read is small, since at a start every queue looks at its head; then it grows."""
READ_AHEAD_MESSAGES_MIN: Final = 64
RETURNED_READ_MAX: Final = 256
"""Bodies of messages that came back are read so many at a time, at most."""

_VOLATILE = 0
_STORED = STORED
_DEAD = DEAD
_OVERHEAD = MESSAGE_OVERHEAD_BYTES


class VariableQueue(PagedMessages):
    """`on_deleted` is called when nothing of the queue is needed any more."""

    def __init__(
        self, make_index: Callable[[], QueueIndexClient], is_durable: bool, reader: Reader
    ) -> None:
        super().__init__(make_index, is_durable, reader)
        self.on_deleted: Callable[[], None] | None = None
        self.unacked_bodiless = 0
        self.unacked_bodiless_bytes = 0
        self.begins_at = 0
        """A mirror's: the disk has never heard of a message with a lower number."""
        self.rates: OperationRates | None = None
        self.discarding = Discarding(reader.call_soon)

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        queued = QueuedMessage(message, self.next_sequence, expires_at_ms)
        self.next_sequence += 1
        self.length += 1
        queued.size = len(message.body)
        self.ready_bytes += queued.size
        if self.is_persistent(queued):
            self.persistent_count += 1
            self.persistent_bytes += queued.size
        outcome = self._store(queued, publisher, sequence)
        if self.keep_bytes < 0 and self.delta_count == 0 and self.places == 0 and not self.back:
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

    def _count_unacked(self, queued: QueuedMessage) -> None:
        self.unacked_count += 1
        self.unacked_bytes += queued.size
        if self.is_persistent(queued):
            self.unacked_persistent_count += 1
            self.unacked_persistent_bytes += queued.size

    def _count_settled(self, queued: QueuedMessage) -> None:
        self.unacked_count -= 1
        self.unacked_bytes -= queued.size
        if self.unacked_bodiless != 0 and is_bodiless(queued):
            self.unacked_bodiless -= 1
            self.unacked_bodiless_bytes -= queued.size
        if self.is_persistent(queued):
            self.unacked_persistent_count -= 1
            self.unacked_persistent_bytes -= queued.size

    def set_lazy(self, lazy: bool) -> None:
        if lazy != self.is_lazy:
            PagedMessages.set_lazy(self, lazy)
            self.is_recalling = not lazy
            recall(self)

    def _store(self, queued: QueuedMessage, publisher: Publisher | None, sequence: int) -> int:
        """Have it written if it must survive."""
        if not self.is_persistent(queued):
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
        if self.is_persistent(queued):
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
            if self.front_bodiless != 0 and is_bodiless(self.returned[0][1]):
                self.fill()
                return None
            return heappop(self.returned)[1]
        if not self.front and not self._is_refilled():
            return None
        if self.front_bodiless != 0 and is_bodiless(self.front[0]):
            self.fill()
            return None
        queued: QueuedMessage = self.front.popleft()
        if self.delta_count != 0 or self.places != 0 or self.front_bodiless != 0:
            self._look_ahead()
        return queued

    def _look_ahead(self) -> None:
        """Have what follows read before `front` has run out, as long as it is not enough."""
        if self.leaving:
            return
        if self.q3 or self.front_bodiless != 0:
            if not self.is_filling and self.ahead_bytes() < self.read_ahead_bytes // 2:
                self.fill()
        elif self.delta_count != 0 and len(self.front) < READ_AHEAD_MESSAGES_MIN:
            self.load()

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
        if not self.returned and not self.front and not self._is_refilled():
            return None
        queued: QueuedMessage = self.returned[0][1] if self.returned else self.front[0]
        if is_bodiless(queued):
            self.fill()
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
            if is_bodiless(queued):
                self.count_bodiless(queued)
            if self.is_persistent(queued):
                self.persistent_count += 1
                self.persistent_bytes += queued.size
        self.length += len(run)
        assert self.unacked_count >= 0, "more returned than delivered"

    def purge(self) -> int:
        count = self.length
        span = (self.delta_start, self.delta_end) if self.delta_count else None
        self.discarding.purged(self.index, self._forget(), span)
        return count

    def is_discarding(self) -> bool:
        return self.discarding.is_under_way

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
        self.discarding.deleted(self._forget())
        if self.on_deleted is not None:
            self.on_deleted()

    def _forget(self) -> list[Container]:
        """Have nothing any more; returns what held the messages in memory."""
        had: list[Container] = [self.returned, self.front, self.leaving]
        had += [self.q3, self.q2, self.back]
        self.returned, self.leaving = [], []
        self.front, self.q3, self.q2, self.back = deque(), deque(), deque(), deque()
        self.places = self.places_bytes = self.beta_count = 0
        self.front_bodiless = self.front_bodiless_bytes = 0
        self.back_bodiless = self.back_bodiless_bytes = 0
        self.leaving_bytes = self.back_bytes = self.given_count = self.given_bytes = 0
        self.delta_count = self.delta_bytes = 0
        self.length = self.ready_bytes = 0
        self.persistent_count = self.persistent_bytes = 0
        self.release_credit()
        self.forget_reads()
        return had

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
            paged_out=self.delta_count + self.bodiless_count,
            paged_out_bytes=self.delta_bytes + self.bodiless_bytes,
            unacked_paged_out=self.unacked_bodiless,
            unacked_paged_out_bytes=self.unacked_bodiless_bytes,
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
            "target_ram_count": self._target_ram_count(),
            "version": 1,
        }

    def _target_ram_count(self) -> int | str:
        """How many messages of the usual size `keep_bytes` is."""
        if self.keep_bytes < 0 or self.is_lazy:
            return "infinity"
        size = self.ready_bytes // self.length if self.length else 0
        return int(self.keep_bytes // (size + MESSAGE_OVERHEAD_BYTES))

    def peek(self) -> QueuedMessage | None:
        first: Any = self.front or self.leaving or self.q3
        if not first and self.delta_count == 0:
            first = self.back
        head = self.returned[0][1] if self.returned else first[0] if first else None
        return None if head is None or is_bodiless(head) else head

    def disk_counts(self) -> tuple[int, int]:
        if self.index is None:
            return 0, 0
        return self.index.messages_read, self.index.messages_written

    def is_in_flow(self, now_ms: int, memory_ms: int) -> bool:
        return self.flow.is_in_flow(now_ms, memory_ms)

    def in_memory(self) -> list[QueuedMessage]:
        returned = [queued for _, queued in self.returned]
        return [*returned, *self.front, *self.leaving, *self.q3, *self.q2, *self.back]

    def drop_unacked(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            if is_bodiless(queued) or queued.size == 0 or queued.delivery_count != 0:
                continue
            message = queued.message
            if is_body_out(queued):
                # What an acknowledgement looks at stays: who is to be told, level and id.
                queued.message = Message(message.route_key, message.properties, b"", message.flags)
                self.unacked_bodiless += 1
                self.unacked_bodiless_bytes += queued.size
            elif queued.state == _VOLATILE:
                self._write_out_unacked(queued)

    def _write_out_unacked(self, queued: QueuedMessage) -> None:
        """Have a transient one in a store, if its body is large enough to go there."""
        if self.indexed().is_stored(queued.message):
            self.indexed().write_out(queued)

    def load_unacked(
        self, run: list[QueuedMessage], done: Callable[[list[QueuedMessage]], None]
    ) -> None:
        bodiless = [queued for queued in run if is_bodiless(queued)]
        if not bodiless:
            done(run)
            return

        def have(messages: list[Message | None]) -> None:
            for queued, message in zip(bodiless, messages, strict=True):
                if message is not None:
                    queued.message = message
                    self.unacked_bodiless -= 1
                    self.unacked_bodiless_bytes -= queued.size
            done([queued for queued in run if not is_bodiless(queued)])

        self._reader.read_bodies(self.indexed(), bodiless, have)

    def load(self) -> None:
        """Read the next piece of delta into `front`, unless that is under way."""
        if self.is_loading:
            return
        self._stay()
        assert not self.q3, "delta comes after q3"
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

    def fill(self) -> None:
        """Read bodies of the next messages that have none, unless that is under way."""
        if self.is_filling:
            return
        room = self._grow()
        wanted = self._bodiless_returned(room) if self.returned else self._bodiless_front(room)
        if wanted:
            self.read_bodies_of(wanted)

    def read_bodies_of(self, wanted: list[QueuedMessage]) -> None:
        self.is_filling = True
        epoch = self.epoch
        self._reader.read_bodies(
            self.indexed(), wanted, lambda messages: self._filled(wanted, messages, epoch)
        )

    def _bodiless_returned(self, room: int) -> list[QueuedMessage]:
        wanted = []
        for _, queued in nsmallest(RETURNED_READ_MAX, self.returned):
            if room <= 0:
                break
            if is_bodiless(queued):
                wanted.append(queued)
            room -= queued.size + _OVERHEAD
        return wanted

    def _bodiless_front(self, room: int) -> list[QueuedMessage]:
        if not self.leaving:
            later = self.front_bodiless_bytes + self.front_bodiless * _OVERHEAD
            self.take_places(room - later)
        wanted = []
        for queued in self.front:
            if room <= 0:
                break
            if is_bodiless(queued):
                wanted.append(queued)
                room -= queued.size + _OVERHEAD
        if wanted:
            self.loaded_below = max(self.loaded_below, wanted[-1].sequence + 1)
        return wanted

    def _filled(
        self, wanted: list[QueuedMessage], messages: list[Message | None], epoch: int
    ) -> None:
        if epoch != self.epoch:
            return
        self.is_filling = False
        lost = []
        for place, queued in enumerate(wanted):
            if queued.state == _DEAD:  # another node removed it meanwhile
                continue
            self.uncount_bodiless(queued)
            message = messages[place]
            if message is None:
                lost.append(queued)
            elif queued.delivery_count:
                queued.message = with_delivery_count(message, queued.delivery_count)
            else:
                queued.message = message
        if lost:
            self._lose(lost)
        self._have_loaded()

    def _lose(self, lost: list[QueuedMessage]) -> None:
        """Forget messages whose bodies are damaged or gone; the store has reported that."""
        self.indexed().ack(lost)
        for queued in lost:
            if queued in self.front:
                self.front.remove(queued)
            self.ready_bytes -= queued.size
        self.returned = [entry for entry in self.returned if entry[1].state != _DEAD]
        heapify(self.returned)
        self.length -= len(lost)

    def _loaded(self, entries: list[QueuedMessage], epoch: int) -> None:
        if epoch != self.epoch:
            return
        self.is_loading = False
        if entries:
            self.front.extend(entries)
            for queued in entries:
                if is_bodiless(queued):
                    self.count_bodiless(queued)
            self.delta_start = entries[-1].sequence + 1
            # What is recalled nobody is going to have soon.
            self.loaded_below = self.loaded_below if self.is_recalling else self.delta_start
            self.delta_count -= len(entries)
            self.delta_bytes -= sum([queued.size for queued in entries])
        if not entries or not self.delta_count or self.delta_start >= self.delta_end:
            # What is still counted could not be read; the index has reported the loss.
            self.length -= self.delta_count
            self.ready_bytes -= self.delta_bytes
            self.delta_count = self.delta_bytes = 0
            self.end_delta()
        self._have_loaded()

    def _have_loaded(self) -> None:
        self.persistent_count = min(self.persistent_count, self.length)
        self.persistent_bytes = min(self.persistent_bytes, self.ready_bytes)
        self.page_out()
        self.check()
        if self.on_loaded is not None:
            self.on_loaded()
        recall(self)
