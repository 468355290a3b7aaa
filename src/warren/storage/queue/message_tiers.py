"""The tiers of a queue's messages: in memory, in memory without a body, or on disk.

Each message is in one of RabbitMQ's four states:

    alpha   body and place are in memory
    beta    the body is on disk only; the place is in memory, and nowhere else
    gamma   the same, but the index on disk has the place, too
    delta   neither is in memory

The place is what a queue knows of a message without its content: order, expiry, size, where the
body is. Messages leave memory in two steps, alpha to beta or gamma and from there to delta, because
each step is worth something. A body of 200 KB frees all but 150 bytes, and is one read away; then
the place may as well stay. Only where places themselves have become the cost do they go, too.

A large body is in a message store. A persistent message has its index entry from its arrival on, so
it becomes gamma. A transient one is written out without an entry, and becomes beta; it is given an
entry when its place has to go.

A body below `queue_index_embed_msgs_below` is a part of its index entry, transient or not. So when
a segment of the index has the entry, the message becomes gamma: 1 KB of body frees seven eighths
of what the message takes. The body comes back by its number, from that segment.

Oldest first, the messages are

    returned | front | leaving | q3 | delta | q2 | back
    ---------- q4 ------------             (q1: back)

q3 and q2 hold betas and gammas and nothing else; all others but delta hold alphas, save for those
whose bodies are being read (`front_bodiless`) or were never read since a start (`back_bodiless`).
Delta is a range of sequence numbers of which only the index knows the contents: first, end and how
many. As long as nothing has been paged out there is `front` alone: publishing appends to it,
delivering takes from it.

A queue that is to save memory may keep `keep_bytes`: its oldest messages, and for half of it
places. Newer messages move from the tail of `front` to `leaving`, and what is published to `back`;
those that are not on their way to the disk anyway are written out there. So messages leave from the
middle: what consumers want next stays longest, and what has just come leaves last. When a store
or a segment has the body of `leaving`'s newest it is the head of q3; when one has that of `back`'s
oldest, it is the tail of q2, or of q3 if there is no delta. Beyond what places may take, those in
the middle become a part of delta, which grows at both ends, when their entries are in segments of
the index (SEGMENTED). A lazy queue is one that keeps nothing, not even places.

On the way back, when `front` runs low, bodies of q3 are read into it, and then the next piece of
delta: off the event loop, ahead of need, a bounded number of bytes at a time. What was read stays
until it is delivered, so each body is read once.

`returned` holds what was delivered and came back. It is older than everything else: messages leave
`front` from its head only, so whatever was delivered is older than all that was not. When nothing
is unacknowledged any more, it can become part of `front` again, and leave.

Work is done in steps of a bounded size; the rest of it is put off to the next turn of the loop.
What waits in `leaving` and `back` for the disk is bounded in bytes: the former because no more is
chosen to leave, the latter because publishers are charged for it (`credit`).

Invariants, checked after each step that moves messages (those of each message in debug builds):

    back and q3 are empty unless there is a delta or memory was to be saved
    q2 is empty unless there is a delta
    sequence numbers: returned < front < leaving < q3 < delta.start <= delta.end <= q2 < back
    length = alpha + beta + gamma + delta, each message being counted once
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from warren.flow.states import FlowRecord
from warren.queues.backing import EMBEDS_ALL, Level
from warren.storage.index.index_records import EMBEDDED
from warren.storage.index.states import (
    JOURNALED,
    SCATTERING,
    SEGMENTED,
    STORED,
    TRANSIENT_FILE_MIN,
)
from warren.storage.queue.paging_host import (
    MESSAGE_OVERHEAD_BYTES,
    PLACE_BYTES,
    QueueIndexClient,
    Reader,
)
from warren.wire.codec import Message, QueuedMessage

READ_FIRST_BYTES: Final = 8_192
KEEP_EVERYTHING: Final = -1
PLACES_SHARE: Final = 2
"""Of what a queue may keep, one part in so many may be places."""
CHECKED_MAX: Final = 1_024
"""Debug builds look at each message of a queue that has no more than this in memory."""

# Numbers of other modules, which the .pxd makes C variables: a name that is imported is looked up.
_JOURNALED = JOURNALED
_SCATTERING = SCATTERING
_SEGMENTED = SEGMENTED
_STORED = STORED
_EMBEDDED = EMBEDDED
_TRANSIENT_FILE_MIN = TRANSIENT_FILE_MIN
_OVERHEAD = MESSAGE_OVERHEAD_BYTES
_PLACE = PLACE_BYTES


class MessageTiers(Level):
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
        self.is_patient = False
        """True while the master of mirrors says when to sync: its publishers wait for them, too."""
        self.keep_bytes = KEEP_EVERYTHING
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
        self.q3: deque[QueuedMessage] = deque()
        self.q2: deque[QueuedMessage] = deque()
        # How many those two have, and the bytes of their bodies.
        self.places = 0
        self.places_bytes = 0
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
        # Messages without a body in `returned` and `front`, and in `back`; and of all, the betas.
        self.front_bodiless = 0
        self.front_bodiless_bytes = 0
        self.back_bodiless = 0
        self.back_bodiless_bytes = 0
        self.beta_count = 0
        # Whether a piece of delta is being read, and whether bodies are.
        self.is_loading = False
        self.is_filling = False
        # Whether everything is read back, since the queue was lazy until now.
        self.is_recalling = False
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
            self.index.on_stored = self._body_stored
            self.index.debtor = self.flow
            self.index.is_patient = self.is_patient
        return cast("QueueIndexClient", self.index)

    def embeds_below(self) -> int:
        return self.indexed().embed_below if self.is_durable else EMBEDS_ALL

    def set_patient(self, is_patient: bool) -> None:
        self.is_patient = is_patient
        if self.index is not None:
            self.index.is_patient = is_patient
            self.index.commit()

    def commit(self) -> None:
        """Have what publishers wait for written and synced now."""
        if self.index is not None:
            self.index.commit()

    def page_out(self) -> None:
        raise NotImplementedError

    def _body_stored(self) -> None:
        raise NotImplementedError

    def is_persistent(self, queued: QueuedMessage) -> bool:
        """True if a start must find it; also of one whose content is not in memory."""
        if not self.is_durable:
            return False
        message: Message | None = queued.message
        if message is not None:
            return message.properties.persistent
        if queued.store_file != _EMBEDDED:
            return queued.store_file < _TRANSIENT_FILE_MIN
        return not self.index.is_transient(queued)

    # Counting.

    def _drop_body(self, queued: QueuedMessage) -> None:
        """Its body leaves memory: it becomes a place."""
        queued.message = None  # type: ignore[assignment]
        self._count_place(queued)

    def _count_place(self, queued: QueuedMessage) -> None:
        self.places += 1
        self.places_bytes += queued.size
        if queued.state == _STORED:
            self.beta_count += 1

    def uncount_place(self, queued: QueuedMessage) -> None:
        self.places -= 1
        self.places_bytes -= queued.size
        self._uncount_beta(queued)

    def count_bodiless(self, queued: QueuedMessage) -> None:
        """One without a body has come to `front` or `returned`."""
        self.front_bodiless += 1
        self.front_bodiless_bytes += queued.size
        if queued.state == _STORED:
            self.beta_count += 1

    def uncount_bodiless(self, queued: QueuedMessage) -> None:
        self.front_bodiless -= 1
        self.front_bodiless_bytes -= queued.size
        self._uncount_beta(queued)

    def _uncount_beta(self, queued: QueuedMessage) -> None:
        if queued.state == _STORED:
            self.beta_count -= 1

    def _count_paged(self, queued: QueuedMessage) -> None:
        self.delta_count += 1
        self.delta_bytes += queued.size

    @property
    def waiting_bytes(self) -> int:
        """About what will leave memory as soon as the disk has it."""
        waiting = self.leaving_bytes + self.charged_bytes
        return waiting if self.keep_bytes < 0 else waiting + max(0, self.surplus_bytes)

    @property
    def staying_bytes(self) -> int:
        """Bytes that the queue holds and has not been told to let go of."""
        return max(0, self.memory_bytes - self.waiting_bytes)

    @property
    def surplus_bytes(self) -> int:
        """How much more than may be kept `front` and `returned` hold.

        Each message of `leaving` will be a place. Places beyond their share are about to go, and
        need no room.
        """
        back_bytes = self.back_bytes - self.back_bodiless_bytes
        back_bytes -= self.back_bodiless * (_OVERHEAD - _PLACE)
        held = self.memory_bytes - self.leaving_bytes - back_bytes - self.places * _PLACE
        places = min((self.places + len(self.leaving)) * _PLACE, self.keep_bytes // PLACES_SHARE)
        return held - (self.keep_bytes - places)

    @property
    def bodiless_count(self) -> int:
        """Ready messages whose place is in memory and whose body is not: betas and gammas."""
        return self.places + self.front_bodiless + self.back_bodiless

    @property
    def bodiless_bytes(self) -> int:
        """Body bytes of the same."""
        return self.places_bytes + self.front_bodiless_bytes + self.back_bodiless_bytes

    @property
    def memory_bytes(self) -> int:
        """All bytes that ready messages take in memory."""
        bodies = self.ready_bytes - self.delta_bytes - self.bodiless_bytes
        places = self.bodiless_count
        return bodies + (self.length - self.delta_count - places) * _OVERHEAD + places * _PLACE

    def ahead_bytes(self) -> int:
        """Bytes of messages in memory that are delivered before anything has to be read."""
        away = self.delta_bytes + self.places_bytes + self.front_bodiless_bytes
        ahead = len(self.returned) + len(self.front) - self.front_bodiless
        # What `leaving` and `back` hold is counted with what each message takes beside its body.
        later = self.leaving_bytes + self.back_bytes
        later -= (len(self.leaving) + len(self.back)) * _OVERHEAD
        return self.ready_bytes - away - later + ahead * _OVERHEAD

    def release_credit(self) -> None:
        """So that what is charged is what is in `back`, or nothing if all may stay there."""
        owed = self.back_bytes if self.keep_bytes >= 0 else 0
        if owed < self.charged_bytes:
            self.credit.release(self.charged_bytes - owed)
            self.charged_bytes = owed

    # Back into memory.

    def _stay(self) -> None:
        """Keep messages in memory that were to leave it, and have not."""
        self.front.extend(self.leaving)
        self.leaving.clear()
        self.leaving_bytes = 0

    def refill(self) -> None:
        """`front` is empty: what follows it, if that is in memory, with or without its body."""
        assert not self.front
        if self.leaving:
            self._stay()
        elif self.q3:
            self.take_places(1)
        elif self.delta_count == 0 and self.back:
            self.front, self.back = self.back, self.front
            self.front_bodiless += self.back_bodiless
            self.front_bodiless_bytes += self.back_bodiless_bytes
            self.back_bodiless = self.back_bodiless_bytes = 0
            self.back_bytes = self.given_count = self.given_bytes = 0
            self.release_credit()

    def take_places(self, room: int) -> None:
        """Move the oldest of q3 to `front`, for their bodies to be read: at least so many bytes."""
        while self.q3 and room > 0:
            queued = self.q3.popleft()
            room -= queued.size + _OVERHEAD
            self.uncount_place(queued)
            self.count_bodiless(queued)
            self.front.append(queued)

    def end_delta(self) -> None:
        """There is no delta any more: what came after it follows q3."""
        if self.delta_count == 0 and self.q2:
            self.q3.extend(self.q2)
            self.q2.clear()

    def forget_reads(self) -> None:
        """Whoever they were for does not need them."""
        self.epoch += 1
        self.is_loading = self.is_filling = False

    def check(self) -> None:
        in_memory = len(self.returned) + len(self.front) + len(self.leaving) + len(self.back)
        in_memory += self.places
        assert self.length == in_memory + self.delta_count, "messages are counted once"
        assert self.delta_count >= 0, "no more is read than was paged out"
        assert self.places == len(self.q3) + len(self.q2), "places are in q3 and q2"
        assert self.delta_count or not self.q2, "q2 comes after a delta"
        assert 0 <= self.beta_count <= self.bodiless_count, "a beta has no body"
        if self.front and self.leaving:
            assert self.front[-1].sequence < self.leaving[0].sequence, "front is older"
        if self.q3:
            before = self.leaving or self.front
            assert not before or before[-1].sequence < self.q3[0].sequence, "q3 comes after"
        if self.delta_count:
            before = self.q3 or self.leaving or self.front
            assert not before or before[-1].sequence < self.delta_start, "delta comes after"
            after = self.q2 or self.back
            assert not after or self.delta_end <= after[0].sequence, "what is newer comes after"
        assert in_memory > CHECKED_MAX or self._are_states_right(), "each is where its state is"

    def _are_states_right(self) -> bool:
        """Every message has a body, or none, as the tier says that it is in."""
        returned = [queued for _, queued in self.returned]
        before = [queued for queued in (*returned, *self.front) if is_bodiless(queued)]
        after = [queued for queued in self.back if is_bodiless(queued)]
        places = [*self.q3, *self.q2]
        away = [*before, *after, *places]
        return (
            (self.front_bodiless, self.back_bodiless) == (len(before), len(after))
            and self.bodiless_bytes == sum([queued.size for queued in away])
            and self.beta_count == len([q for q in away if q.state == _STORED])
            and all(
                is_bodiless(q) and (q.store_file != _EMBEDDED or is_body_out(q)) for q in places
            )
            and not any(is_bodiless(queued) for queued in self.leaving)
        )


def is_bodiless(queued: QueuedMessage) -> bool:
    """True if its body is not in memory. Only storage sees a ready message like that, so its
    type does not speak of it; clients may have one whose message has lost its body."""
    message: Message | None = queued.message
    return message is None or (queued.size != 0 and len(message.body) == 0)


def is_body_out(queued: QueuedMessage) -> bool:
    """True if its body can be read: a message store has it, or a segment, as part of its entry."""
    if queued.store_file == _EMBEDDED:
        return queued.state == _SEGMENTED
    return queued.state in (_JOURNALED, _SCATTERING, _SEGMENTED, _STORED)


def runs_of_sequences(ascending: list[int]) -> list[tuple[int, int]]:
    """Return runs of numbers that follow each other, as (first, count)."""
    if ascending and ascending[-1] - ascending[0] == len(ascending) - 1:
        return [(ascending[0], len(ascending))]
    runs: list[tuple[int, int]] = []
    for sequence in ascending:
        if runs and sequence == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((sequence, 1))
    return runs
