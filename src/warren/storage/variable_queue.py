"""A queue's messages, in memory as far as that is wanted and on disk as far as that is needed.

RabbitMQ calls it the variable queue. Oldest first, a queue is

    returned | front | delta | back          (RabbitMQ: q4 and q3 | delta | q2 and q1)

`front` and `back` are in memory. `delta` is a range of sequence numbers of which only the index
knows the contents: first, end and how many. As long as nothing has been paged out there is no
delta, and `back` is empty: publishing appends to `front`, delivering takes from it. Once there is a
delta, publishes go to `back`, and when `front` runs out the next piece of delta is read into it,
off the event loop, ahead of need, a bounded number of bytes at a time.

`returned` holds what was delivered and came back. It is older than everything else: messages leave
`front` from its head only, so whatever was delivered is older than all that was not.

What may leave memory: a message whose entry is in a segment of the index (SEGMENTED). A lazy queue
lets go of everything it may; others only what is beyond the `keep` oldest messages, a number that
the memory governor sets when memory is short. Whatever is to leave is given to the index first,
transient messages too; they are dropped there at the next start.

Invariants, checked after each step that moves messages:

    back is empty unless there is a delta or memory is to be saved (keep >= 0)
    sequence numbers: returned < front < delta.start <= delta.end <= back
    length = len(returned) + len(front) + delta.count + len(back)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final, Protocol, cast

from warren.queues.backing import BackingQueue
from warren.queues.boundary import PENDING, TAKEN, Publisher
from warren.storage.states import SEGMENTED, VOLATILE
from warren.wire.codec import Message, QueuedMessage

READ_AHEAD_BYTES: Final = 1_048_576
READ_AHEAD_MESSAGES_MIN: Final = 64


class QueueIndexClient(Protocol):
    """What a variable queue asks of its index (storage/queue_index.py)."""

    on_segmented: Callable[[], None] | None

    def publish(self, queued: QueuedMessage) -> None: ...

    def ack(self, run: list[QueuedMessage]) -> None: ...

    def ack_range(self, start: int, end: int) -> None: ...


class Reader(Protocol):
    """Brings messages back, off the loop, and calls `done` on it."""

    def read(
        self,
        index: Any,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        """Those alive of the span, oldest first; at least one if any can be read."""

    def read_bodies(
        self, index: Any, entries: list[QueuedMessage], done: Callable[[], None]
    ) -> None:
        """Give each its message, unless that is lost."""


class VariableQueue(BackingQueue):
    """The index is made when it is first needed: most queues never need one.

    `on_loaded` is called when messages that were asked for in vain have come from the disk.
    """

    def __init__(
        self,
        make_index: Callable[[], QueueIndexClient],
        is_durable: bool,
        reader: Reader,
    ) -> None:
        self.length = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.outcome = TAKEN
        self.index: Any = None
        self.is_durable = is_durable
        self.keep = -1
        self.on_loaded: Callable[[], None] | None = None
        self.on_deleted: Callable[[], None] | None = None
        self._make_index = make_index
        self._reader = reader
        self.next_sequence = 0
        self.returned: list[tuple[int, QueuedMessage]] = []
        self.front: deque[QueuedMessage] = deque()
        self.back: deque[QueuedMessage] = deque()
        self.delta_start = 0
        self.delta_end = 0
        self.delta_count = 0
        self.delta_bytes = 0
        self.is_loading = False
        # What is older was read from the disk, because somebody is going to have it soon.
        self.loaded_below = 0
        # Bumped when what is being read has become meaningless: a purge.
        self.epoch = 0

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        queued = QueuedMessage(message, self.next_sequence, expires_at_ms)
        self.next_sequence += 1
        self.length += 1
        queued.size = len(message.body)
        self.ready_bytes += queued.size
        if self.keep < 0 and self.delta_count == 0 and not self.back:
            self.front.append(queued)
        else:
            self.back.append(queued)
        return self._store(queued, publisher, sequence)

    def publish_delivered(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> QueuedMessage:
        queued = QueuedMessage(message, self.next_sequence, expires_at_ms)
        self.next_sequence += 1
        queued.size = len(message.body)
        self.unacked_count += 1
        self.outcome = self._store(queued, publisher, sequence)
        return queued

    def _store(self, queued: QueuedMessage, publisher: Publisher | None, sequence: int) -> int:
        """Have it written if it must survive, or if it is not to stay in memory."""
        if not self.is_durable or not queued.message.properties.persistent:
            if self.keep >= 0:
                self._indexed().publish(queued)
            return TAKEN
        if publisher is not None:
            queued.publisher = publisher
            queued.publisher_sequence = sequence
        if self.index is None:
            self._indexed()
        self.index.publish(queued)
        return TAKEN if publisher is None else PENDING

    def _indexed(self) -> QueueIndexClient:
        if self.index is None:
            self.index = self._make_index()
            self.index.on_segmented = self.page_out
        return cast("QueueIndexClient", self.index)

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        """None although `length` is not zero: the head is being read; `on_loaded` will tell."""
        queued = self._take_head()
        if queued is None:
            return None
        self.length -= 1
        self.ready_bytes -= queued.size
        if ack_required:
            self.unacked_count += 1
        elif queued.state != VOLATILE:
            assert self.index is not None, "what is on its way to the disk has an index"
            self.index.ack([queued])
        return queued

    def _take_head(self) -> QueuedMessage | None:
        if self.returned:
            return heappop(self.returned)[1]
        if not self.front and self.delta_count == 0:
            self.front, self.back = self.back, self.front
        if not self.front:
            if self.delta_count != 0:
                self._load()
            return None
        queued = self.front[0]
        if _is_bodiless(queued):
            self._load_bodies()
            return None
        self.front.popleft()
        if self.delta_count != 0 and len(self.front) < READ_AHEAD_MESSAGES_MIN:
            self._load()
        return queued

    def head(self) -> QueuedMessage | None:
        """None if the queue is empty, or if its head is still being read."""
        if self.returned:
            return self.returned[0][1]
        if self.front:
            queued = self.front[0]
        elif self.delta_count != 0:
            self._load()
            return None
        elif self.back:
            queued = self.back[0]
        else:
            return None
        if _is_bodiless(queued):
            self._load_bodies()
            return None
        return queued

    def ack(self, run: list[QueuedMessage]) -> None:
        self.unacked_count -= len(run)
        assert self.unacked_count >= 0, "more acknowledged than delivered"
        if self.index is not None:
            self.index.ack(run)

    def requeue(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            heappush(self.returned, (queued.sequence, queued))
            self.ready_bytes += queued.size
        self.length += len(run)
        self.unacked_count -= len(run)
        assert self.unacked_count >= 0, "more returned than delivered"

    def purge(self) -> int:
        count = self.length
        if self.index is not None:
            self.index.ack(self._in_memory())
            if self.delta_count:
                self.index.ack_range(self.delta_start, self.delta_end)
        self._forget()
        return count

    def delete(self) -> None:
        self._forget()
        if self.on_deleted is not None:
            self.on_deleted()

    def _forget(self) -> None:
        self.returned.clear()
        self.front.clear()
        self.back.clear()
        self.delta_count = 0
        self.delta_bytes = 0
        self.length = 0
        self.ready_bytes = 0
        self.epoch += 1
        self.is_loading = False

    def recover(self, start: int, end: int, count: int, body_bytes: int) -> None:
        """After a start: so many messages, of these sequence numbers, are in segments."""
        assert self.length == 0, "a queue is recovered before it is used"
        self._indexed()
        self.delta_start, self.delta_end, self.delta_count = start, end, count
        self.delta_bytes = body_bytes
        self.length = count
        self.ready_bytes = body_bytes

    def recover_recent(self, entries: list[QueuedMessage], next_sequence: int) -> None:
        """After `recover`: these, newer ones, are in the journal only, and thus in memory."""
        self._indexed()
        self.back.extend(entries)
        self.length += len(entries)
        self.ready_bytes += sum(queued.size for queued in entries)
        self.next_sequence = next_sequence
        self._check()

    def delivered_runs(self) -> list[tuple[int, int]]:
        """What somebody has had before, as (first, count): a clean stop writes it down."""
        had = sorted(queued.sequence for queued in self._in_memory() if queued.redelivered)
        runs: list[tuple[int, int]] = []
        for sequence in had:
            if runs and sequence == sum(runs[-1]):
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((sequence, 1))
        return runs

    def _in_memory(self) -> list[QueuedMessage]:
        return [*(queued for _, queued in self.returned), *self.front, *self.back]

    @property
    def memory_bytes(self) -> int:
        """Bodies of ready messages that are in memory."""
        return self.ready_bytes - self.delta_bytes

    def set_lazy(self, lazy: bool) -> None:
        if lazy and self.keep != 0:
            self.save_memory(0)
        elif not lazy:
            self.use_memory()

    def save_memory(self, keep: int) -> None:
        """Keep no more than the `keep` oldest in memory, as soon as the disk has the others."""
        self.keep = keep
        self.loaded_below = 0
        leaving = [*islice(self.front, keep, None), *self.back]
        for queued in leaving:
            if queued.state == VOLATILE:
                self._indexed().publish(queued)
        self.page_out()

    def use_memory(self) -> None:
        """What comes may stay in memory; what is on disk comes back when it is needed."""
        self.keep = -1

    def page_out(self) -> None:
        """Turn into delta what is beyond `keep` and in segments, but not what was just read.

        Nothing while a read is under way: its answer continues what `front` has now.
        """
        if self.keep < 0 or self.is_loading:
            return
        while self._is_front_tail_leaving():
            self._page_front_tail()
        can_extend = self.delta_count != 0 or not self.front
        while can_extend and self.back and self.back[0].state == SEGMENTED:
            self._page_back_head()
        self._check()

    def _is_front_tail_leaving(self) -> bool:
        if len(self.front) <= self.keep:
            return False
        tail = self.front[-1]
        return tail.state == SEGMENTED and tail.sequence >= self.loaded_below

    def _page_front_tail(self) -> None:
        queued = self.front.pop()
        if self.delta_count == 0:
            self.delta_end = queued.sequence + 1
        self.delta_start = queued.sequence
        self._count_paged(queued)

    def _page_back_head(self) -> None:
        queued = self.back.popleft()
        if self.delta_count == 0:
            self.delta_start = queued.sequence
        self.delta_end = queued.sequence + 1
        self._count_paged(queued)

    def _count_paged(self, queued: QueuedMessage) -> None:
        self.delta_count += 1
        self.delta_bytes += queued.size

    def _load(self) -> None:
        """Read the next piece of delta into `front`, unless that is under way."""
        if self.is_loading:
            return
        self.is_loading = True
        epoch = self.epoch
        span = (self.delta_start, self.delta_end)
        self._reader.read(
            self._indexed(), span, READ_AHEAD_BYTES, lambda entries: self._loaded(entries, epoch)
        )

    def _load_bodies(self) -> None:
        """After a start, messages may be known whose bodies are in the message store only."""
        if self.is_loading:
            return
        self.is_loading = True
        epoch = self.epoch
        room = READ_AHEAD_BYTES
        wanted = []
        for queued in self.front or self.back:
            if room <= 0:
                break
            if _is_bodiless(queued):
                wanted.append(queued)
            room -= queued.size
        self._reader.read_bodies(self._indexed(), wanted, lambda: self._have_bodies(wanted, epoch))

    def _have_bodies(self, wanted: list[QueuedMessage], epoch: int) -> None:
        if epoch != self.epoch:
            return
        self.is_loading = False
        lost = [queued for queued in wanted if _is_bodiless(queued)]
        if lost:
            self._indexed().ack(lost)
            for queued in lost:
                (self.front if self.front else self.back).remove(queued)
                self.ready_bytes -= queued.size
            self.length -= len(lost)
        self.page_out()
        self._check()
        self._tell_loaded()

    def _tell_loaded(self) -> None:
        if self.on_loaded is not None:
            self.on_loaded()

    def _loaded(self, entries: list[QueuedMessage], epoch: int) -> None:
        if epoch != self.epoch:
            return
        self.is_loading = False
        if entries:
            self.front.extend(entries)
            self.delta_start = self.loaded_below = entries[-1].sequence + 1
            self.delta_count -= len(entries)
            self.delta_bytes -= sum(queued.size for queued in entries)
        if not entries or self.delta_start >= self.delta_end:
            # What is still counted could not be read; the index has reported the loss.
            self.length -= self.delta_count
            self.ready_bytes -= self.delta_bytes
            self.delta_count = self.delta_bytes = 0
        self.page_out()
        self._check()
        self._tell_loaded()

    def _check(self) -> None:
        in_memory = len(self.returned) + len(self.front) + len(self.back)
        assert self.length == in_memory + self.delta_count, "messages are counted once"
        assert self.delta_count >= 0, "no more is read than was paged out"
        if self.front and self.delta_count:
            assert self.front[-1].sequence < self.delta_start, "front is older than delta"
        if self.back and self.delta_count:
            assert self.delta_end <= self.back[0].sequence, "back is newer than delta"


def _is_bodiless(queued: QueuedMessage) -> bool:
    """Only storage ever sees one like that, so its type does not speak of it."""
    return cast("Message | None", queued.message) is None
