"""The ready messages of a queue, in memory as far as that is wanted and on disk as far as needed.

Oldest first, they are

    returned | front | leaving | delta | back     (RabbitMQ: q4 | q4 | q3 | delta | q2 and q1)

All but delta are in memory. Delta is a range of sequence numbers of which only the index knows the
contents: first, end and how many. As long as nothing has been paged out there is `front` alone:
publishing appends to it, delivering takes from it.

A queue that is to save memory keeps the `keep` oldest messages of `front`. Newer ones move to
`leaving`, and what is published to `back`; those that are not on their way to the disk anyway are
given to the index there. A message may leave memory when its entry is in a segment of the index
(SEGMENTED). Delta grows at both ends: at its start by what leaves `leaving`, at its end by what
leaves `back`. A lazy queue is one that keeps nothing.

When `front` runs out, the next piece of delta is read into it, off the event loop, ahead of need, a
bounded number of bytes at a time. What was read stays until it is delivered.

`returned` holds what was delivered and came back. It is older than everything else: messages leave
`front` from its head only, so whatever was delivered is older than all that was not. When nothing
is unacknowledged any more, it can become part of `front` again, and leave.

Work is done in steps of a bounded size; the rest of it is put off to the next turn of the loop.
What waits in `leaving` and `back` for the disk is bounded in bytes: the former because no more is
chosen to leave, the latter because publishers are charged for it (`credit`).

Invariants, checked after each step that moves messages:

    back is empty unless there is a delta or memory is to be saved (keep >= 0)
    sequence numbers: returned < front < leaving < delta.start <= delta.end <= back
    length = len(returned) + len(front) + len(leaving) + delta.count + len(back)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, cast

from warren.flow.states import FlowRecord
from warren.queues.backing import Level
from warren.storage.index.states import SEGMENTED, VOLATILE
from warren.storage.queue.paging_host import MESSAGE_OVERHEAD_BYTES, QueueIndexClient, Reader
from warren.wire.codec import QueuedMessage

PAGED_PER_STEP_MAX: Final = 8_192
CHOSEN_PER_STEP_MAX: Final = 2_048
LEAVING_BYTES_MAX: Final = 16 * 1_048_576
"""No more is given to the disk at a time, so that others find their way there, too."""
RETURNED_MAX: Final = 1_024
READ_FIRST_BYTES: Final = 8_192
KEEP_EVERYTHING: Final = -1

# Numbers of other modules, which the .pxd makes C variables: a name that is imported is looked up.
_VOLATILE = VOLATILE
_SEGMENTED = SEGMENTED
_OVERHEAD = MESSAGE_OVERHEAD_BYTES


class PagedMessages(Level):
    """The index is made when it is first needed: most queues never need one.

    `on_loaded` is called when messages that were asked for in vain have come from the disk.
    """

    def __init__(
        self, make_index: Callable[[], QueueIndexClient], is_durable: bool, reader: Reader
    ) -> None:
        self.length = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.unacked_bytes = 0
        self.persistent_count = 0
        self.persistent_bytes = 0
        self.unacked_persistent_count = 0
        self.unacked_persistent_bytes = 0
        self.index: Any = None
        self.is_durable = is_durable
        self.is_lazy = False
        self.keep = KEEP_EVERYTHING
        self.on_loaded: Callable[[], None] | None = None
        self._make_index = make_index
        self._reader = reader
        self.credit = reader.credit
        self.flow = FlowRecord()
        self.next_sequence = 0
        self.returned: list[tuple[int, QueuedMessage]] = []
        self.front: deque[QueuedMessage] = deque()
        self.leaving: list[QueuedMessage] = []
        self.leaving_bytes = 0
        self.back: deque[QueuedMessage] = deque()
        self.back_bytes = 0
        self.charged_bytes = 0
        # How many of `back` have been given to the index, if they had to be.
        self.given_count = 0
        self.given_bytes = 0
        self.delta_start = 0
        self.delta_end = 0
        self.delta_count = 0
        self.delta_bytes = 0
        self.is_loading = False
        self.read_ahead_bytes = READ_FIRST_BYTES
        self.is_paging = False
        # What is older was read from the disk, because somebody is going to have it soon.
        self.loaded_below = 0
        # Bumped when what is being read has become meaningless: a purge.
        self.epoch = 0

    def indexed(self) -> QueueIndexClient:
        if self.index is None:
            self.index = self._make_index()
            self.index.on_segmented = self.page_out
            self.index.debtor = self.flow
        return cast("QueueIndexClient", self.index)

    # Out of memory.

    def set_lazy(self, lazy: bool) -> None:
        if lazy == self.is_lazy:
            return
        self.is_lazy = lazy
        self._reader.mode_changed(self, lazy)
        if lazy:
            self.loaded_below = 0
            self._keep_at_most(0)
            if self.length:
                self._reader.scatter_now()
        else:
            self.use_memory()

    def save_memory(self, keep: int) -> None:
        """Keep no more than the `keep` oldest in memory, as soon as the disk has the others.

        A lazy queue does anyway.
        """
        assert keep >= 0, "there is use_memory"
        if not self.is_lazy:
            self._keep_at_most(keep)

    def _keep_at_most(self, keep: int) -> None:
        self.keep = keep
        self._charge(self.back_bytes - self.charged_bytes)
        self.page_out()

    def use_memory(self) -> None:
        """What comes may stay in memory; what is on disk comes back when it is needed."""
        if self.is_lazy:
            return
        self.keep = KEEP_EVERYTHING
        self._stay()
        self.release_credit()

    def page_out(self) -> None:
        """Turn into delta what is beyond `keep` and in segments, but not what was just read.

        Nothing while a read is under way: its answer continues what `front` has now.
        """
        if self.keep < 0 or self.is_loading:
            return
        if len(self.returned) > RETURNED_MAX and self.unacked_count == 0:
            self._take_back_returned()
        room = self._page_leaving(PAGED_PER_STEP_MAX)
        self._choose_leaving()
        room = self._page_back(self._page_leaving(room))
        self._give_back()
        if room <= 0 or self._has_more_to_choose() or self._has_more_to_give():
            self._page_on_soon()
        elif self.credit.is_exhausted and self.back:
            self._reader.scatter_now()
        self.check()

    def _page_on_soon(self) -> None:
        if not self.is_paging:
            self.is_paging = True
            self._reader.call_soon(self._page_on)

    def _page_on(self) -> None:
        self.is_paging = False
        self.page_out()

    def _has_more_to_choose(self) -> bool:
        return (
            len(self.front) > self.keep
            and self.leaving_bytes < LEAVING_BYTES_MAX
            and self.front[-1].sequence >= self.loaded_below
        )

    def _choose_leaving(self) -> None:
        chosen: list[QueuedMessage] = []
        while len(chosen) < CHOSEN_PER_STEP_MAX and self._has_more_to_choose():
            queued = self.front.pop()
            self.leaving_bytes += queued.size + _OVERHEAD
            chosen.append(queued)
        if not chosen:
            return
        for queued in reversed(chosen):
            if queued.state == _VOLATILE:
                self.indexed().publish(queued)
        chosen.reverse()
        self.leaving[:0] = chosen

    def _page_leaving(self, room: int) -> int:
        leaving = self.leaving
        while room > 0 and leaving:
            queued = leaving[-1]
            if queued.state != _SEGMENTED:
                break
            leaving.pop()
            self.leaving_bytes -= queued.size + _OVERHEAD
            if self.delta_count == 0:
                self.delta_end = queued.sequence + 1
            self.delta_start = queued.sequence
            self._count_paged(queued)
            room -= 1
        return room

    def _page_back(self, room: int) -> int:
        back = self.back
        while room > 0 and back:
            queued = back[0]
            if queued.state != _SEGMENTED:
                break
            back.popleft()
            if self.delta_count == 0:
                self.delta_start = queued.sequence
            self.delta_end = queued.sequence + 1
            self._count_paged(queued)
            size = queued.size + _OVERHEAD
            self.back_bytes -= size
            if self.given_count > 0:
                self.given_count -= 1
                self.given_bytes -= size
            room -= 1
        self.release_credit()
        return room

    def _has_more_to_give(self) -> bool:
        return self.given_count < len(self.back) and self.given_bytes < LEAVING_BYTES_MAX

    def _give_back(self) -> None:
        """Some of what was published while all could stay in memory."""
        if not self._has_more_to_give():
            return
        first = self.given_count
        for queued in list(islice(self.back, first, first + CHOSEN_PER_STEP_MAX)):
            self._give(queued)

    def _give(self, queued: QueuedMessage) -> None:
        if queued.state == _VOLATILE:
            self.indexed().publish(queued)
        self.given_count += 1
        self.given_bytes += queued.size + _OVERHEAD

    def _count_paged(self, queued: QueuedMessage) -> None:
        self.delta_count += 1
        self.delta_bytes += queued.size

    def _stay(self) -> None:
        """What was to leave, and has not, is wanted."""
        self.front.extend(self.leaving)
        self.leaving.clear()
        self.leaving_bytes = 0

    def _take_back_returned(self) -> None:
        """Nobody has any of the queue's messages: all that came back is where it was before.

        Not in a queue that counts deliveries, for a message on disk has no such count.
        """
        returned = sorted(self.returned)
        if any(queued.delivery_count for _, queued in returned):
            return
        runs = runs_of_sequences([sequence for sequence, _ in returned])
        self._reader.note_delivered(self.indexed(), runs)
        self.front.extendleft([queued for _, queued in reversed(returned)])
        self.returned.clear()
        self.loaded_below = 0

    def append_back(self, queued: QueuedMessage) -> None:
        """What was published, when it is not to stay in memory or comes after what did not."""
        size = queued.size + _OVERHEAD
        is_all_given = self.given_count == len(self.back)
        self.back.append(queued)
        self.back_bytes += size
        if self.keep >= 0:
            if is_all_given:
                self._give(queued)
            self._charge(size)

    @property
    def waiting_bytes(self) -> int:
        """About what will leave memory as soon as the disk has it."""
        waiting = self.leaving_bytes + self.charged_bytes
        surplus = len(self.front) - self.staying_count
        if surplus:
            waiting += (self.memory_bytes - waiting) * surplus // len(self.front)
        return waiting

    @property
    def staying_count(self) -> int:
        """How many messages of `front` have not been told to leave."""
        return len(self.front) if self.keep < 0 else min(len(self.front), self.keep)

    @property
    def memory_bytes(self) -> int:
        """Of ready messages that are in memory, all that they take."""
        bodies = self.ready_bytes - self.delta_bytes
        return bodies + (self.length - self.delta_count) * _OVERHEAD

    def _charge(self, size: int) -> None:
        self.charged_bytes += size
        self.credit.charge(size, self.flow)
        if self.credit.is_exhausted:
            self._reader.scatter_now()

    def release_credit(self) -> None:
        """So that what is charged is what is in `back`, or nothing if all may stay there."""
        owed = self.back_bytes if self.keep >= 0 else 0
        if owed < self.charged_bytes:
            self.credit.release(self.charged_bytes - owed)
            self.charged_bytes = owed

    # Back into memory.

    def refill(self) -> None:
        """`front` is empty: what follows it, if that is in memory."""
        assert not self.front
        if self.leaving:
            self._stay()
        elif self.delta_count == 0 and self.back:
            self.front, self.back = self.back, self.front
            self.back_bytes = self.given_count = self.given_bytes = 0
            self.release_credit()

    def forget_reads(self) -> None:
        """Whoever they were for does not need them."""
        self.epoch += 1
        self.is_loading = False

    def check(self) -> None:
        in_memory = len(self.returned) + len(self.front) + len(self.leaving) + len(self.back)
        assert self.length == in_memory + self.delta_count, "messages are counted once"
        assert self.delta_count >= 0, "no more is read than was paged out"
        if self.front and self.leaving:
            assert self.front[-1].sequence < self.leaving[0].sequence, "front is older"
        if self.delta_count:
            before = self.leaving or self.front
            assert not before or before[-1].sequence < self.delta_start, "delta comes after"
            assert not self.back or self.delta_end <= self.back[0].sequence, "back is newer"


def is_bodiless(queued: QueuedMessage) -> bool:
    """Only storage ever sees one like that, so its type does not speak of it."""
    return queued.message is None


def runs_of_sequences(ascending: list[int]) -> list[tuple[int, int]]:
    """As (first, count)."""
    if ascending and ascending[-1] - ascending[0] == len(ascending) - 1:
        return [(ascending[0], len(ascending))]
    runs: list[tuple[int, int]] = []
    for sequence in ascending:
        if runs and sequence == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((sequence, 1))
    return runs
