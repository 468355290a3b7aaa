"""One queue's part of the index: what is on its way to the disk, and what is there.

    publish -> gathered -> writing -> journaled -> scattering -> segments
               (waits)     (batch)    (journal)    (being copied)
                  |            \\___________|____________/  ack: a record in the next batch
                  +-- ack: never written

The lists hold the queue's own QueuedMessages; `state` says where each is (states.py). One that is
acknowledged stays in its list as DEAD until the list is gone through anyway, or is mostly dead.

Acknowledgements of consecutive messages become one record. The run that is being gathered is closed
when it breaks, at the end of a segment, and whenever somebody needs to know what is alive: only
then the segment is told. Those of transient messages are not recorded: a start forgets these
anyway.

This is the path of every persistent message, so it is compiled (queue_index.pxd), and what happens
once per batch or less often is elsewhere: batches.py, scatter.py, segment_reading.py.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from warren.queues.boundary import RetryingPublisher
from warren.storage.index import states
from warren.storage.index.index_records import EMBEDDED, RecordBuffer
from warren.storage.index.lone_bodies import LoneBodies
from warren.storage.index.segment import (
    SEGMENT_ENTRIES,
    SEGMENT_SHIFT,
    Segment,
    pieces_among,
    places_of,
)
from warren.storage.index.segment_entry import ENTRY_BYTES, in_state, weigh_all
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.storage.index.index_host import Dirty, Reader

# Numbers of other modules, which the .pxd makes C variables: a name that is imported is looked up.
_VOLATILE = states.VOLATILE
_GATHERED = states.GATHERED
_WRITING = states.WRITING
_JOURNALED = states.JOURNALED
_SEGMENTED = states.SEGMENTED
_DEAD = states.DEAD
_SCATTERING = states.SCATTERING
_STORED = states.STORED
_EMBEDDED = EMBEDDED
_TRANSIENT_FILE_MIN = states.TRANSIENT_FILE_MIN
_SEGMENT_SHIFT = SEGMENT_SHIFT
_SEGMENT_MASK = SEGMENT_ENTRIES - 1
_ENTRY_BYTES = ENTRY_BYTES

# A list is gone through when so many in it are dead, and more than are not.
_DEAD_MIN = 512

UNBOUNDED: Final = 1 << 62


class QueueIndex:
    def __init__(self, dirty: Dirty, queue_id: int, name: str) -> None:
        self.queue_id = queue_id
        self.name = name
        self.embed_below = dirty.embed_below
        self._dirty = dirty
        # For what no segment has yet; and for what of that is not safe at all, here or in a store.
        self.credit = dirty.credit
        self.journal_credit = dirty.journal_credit
        self.store_credit = dirty.store_credit
        self.debtor: Any = None  # is shown as held up when the message store is behind
        self.bodies = dirty.bodies
        self.transient_bodies = dirty.transient_bodies
        self.gathered: list[QueuedMessage] = []
        self.gathered_stored: list[QueuedMessage] = []
        self.lone = LoneBodies()
        self.gathered_weight = self.stored_weight = self.writing_weight = 0  # with what is dead
        self.writing_stored_weight = 0
        self.messages_written = self.messages_read = 0  # since the start, for `disk_counts`
        self.gathered_dead = self.journaled_dead = 0
        self.writing: list[QueuedMessage] = []
        self.writing_acks: list[tuple[int, int, int, int, int]] = []
        self.writing_ranges: list[tuple[int, int]] = []
        self.journaled: list[QueuedMessage] = []
        self.scattering: list[QueuedMessage] = []
        self.acks: list[tuple[int, int, int, int, int]] = []
        self.ranges: list[tuple[int, int]] = []
        self._run_first = self._run_end = self._run_bytes = 0
        self._run_is_segmented = False
        self.segments: dict[int, Segment] = {}
        self.acked_segments: dict[int, Segment] = {}
        self.dead_segments: list[Segment] = []
        self.writing_dead: list[Segment] = []
        self.removable: list[Segment] = []
        self.segments_to_purge: list[Segment] = []
        self.next_sequence = self.segmented_below = self.redelivered_below = 0
        self.on_segmented: Callable[[], None] | None = None
        self.on_stored: Callable[[], None] | None = None
        self.is_ordered = True  # `journaled` and what comes to it, by sequence number
        # Urgent is what is dirty, and somebody waits until it is not.
        self.is_dirty = self.is_urgent = False
        self.is_patient = False  # `commit` is called when it is time, or a timer runs out
        self.is_deleted = self.has_transients = False
        self.has_directory = False  # that would survive a power cut
        self.named_in = -1  # the journal file that says what the queue is called
        # The oldest journal files that `journaled` and `scattering` have something in.
        self.journaled_from = self.scattering_from = 0
        self.delivered: list[tuple[int, int]] = []
        self.blob = b""  # what the last checkpoint said of this queue
        self.reader: Reader | None = None

    # What a queue asks for.

    def publish(self, queued: QueuedMessage) -> None:
        """Have it written; it is JOURNALED, and the publisher told, when it is safe."""
        message = queued.message
        properties = message.properties
        size = len(message.body)
        sequence = queued.sequence
        queued.size = size
        queued.state = _GATHERED
        if sequence >= self.next_sequence:
            self.next_sequence = sequence + 1
        else:
            self._publish_late(sequence)
        if not properties.persistent:
            self.has_transients = True
        if size + len(properties.raw) < self.embed_below:
            self._publish_embedded(queued)
            self._charge(queued, None)
        else:
            self._publish_stored(queued)
            self._charge(queued, self.debtor)

    def is_stored(self, message: Message) -> bool:
        """True if its body is large enough for a message store, and no part of its entry."""
        return len(message.body) + len(message.properties.raw) >= self.embed_below

    def is_transient(self, queued: QueuedMessage) -> bool:
        """True if a start forgets this message, which is SEGMENTED, though its segment has it."""
        segment = self.segments[queued.sequence >> _SEGMENT_SHIFT]
        return bool(segment.transient >> (queued.sequence & _SEGMENT_MASK) & 1)

    def write_out(self, queued: QueuedMessage) -> None:
        """Have a VOLATILE message on disk, so that its body may leave memory.

        A large body is written by itself (STORED); a small one is part of its entry.
        """
        message = queued.message
        if message.properties.persistent or not self.is_stored(message):
            self.publish(queued)
            return
        queued.size = len(message.body)
        self.has_transients = True
        self._gather_body(queued)
        self._charge(queued, self.debtor)

    def enter_stored(self, queued: QueuedMessage) -> None:
        """Have an entry for a message that is STORED: its place is to leave memory, too."""
        assert queued.state == _STORED, "its body has a place in the store"
        del self.lone.stored[queued.sequence]
        if queued.sequence >= self.next_sequence:
            self.next_sequence = queued.sequence + 1
        else:
            self._publish_late(queued.sequence)
        self._gather_entry(queued)
        self._charge(queued, None)

    def _charge(self, queued: QueuedMessage, debtor: Any) -> None:
        if self.credit is not None:
            self.credit.charge(queued.size + _ENTRY_BYTES, debtor)
        if not self.is_urgent:
            self.become_dirty()

    def ack(self, run: list[QueuedMessage]) -> None:
        """Nobody needs these any more. Those never published here are passed over."""
        released = 0
        for queued in run:
            state = queued.state
            if state in (_DEAD, _VOLATILE):
                continue
            if state not in (_SEGMENTED, _STORED):
                released += queued.size + _ENTRY_BYTES
            if state == _JOURNALED:
                self.journaled_dead += 1
            elif state == _GATHERED:
                self._cancel(queued)
                continue
            queued.state = _DEAD
            if self.has_transients and self._ack_transient(queued, state):
                continue
            if queued.store_file != _EMBEDDED:
                self._ack_stored(queued, state)
                continue
            sequence = queued.sequence
            if (
                sequence != self._run_end
                or (sequence & _SEGMENT_MASK) == 0
                or self._run_is_segmented != (state == _SEGMENTED)
            ):
                self.close_run()
                self._run_first = sequence
                self._run_is_segmented = state == _SEGMENTED
            self._run_end = sequence + 1
            self._run_bytes += queued.size
        if released and self.credit is not None:
            self.credit.release(released)
        if not self.is_dirty:
            self._become_lazily_dirty()
        if self.journaled_dead > _DEAD_MIN and self.journaled_dead * 2 > len(self.journaled):
            self.journaled = in_state(self.journaled, _JOURNALED)
            self.journaled_dead = 0

    def ack_range(self, start: int, end: int) -> None:
        """Nobody needs any more what is numbered from `start` to before `end`.

        That is for messages in segments; what of these numbers is in memory only has been
        acknowledged before.
        """
        self.close_run()
        self.ranges.append((start, end))
        for segment, places in pieces_among(self.segments, start, end):
            self.acked_segments[segment.number] = segment
            segment.purge_places(places)
            if segment.doomed:
                self.segments_to_purge.append(segment)
            elif not segment.live:
                self.bury(segment)
        if not self.is_urgent:
            self.become_dirty()

    def read(
        self, start: int, end: int, bytes_max: int, done: Callable[[list[QueuedMessage]], None]
    ) -> None:
        """Tell `done` the first messages that are in segments from `start` to before `end`.

        They come in order, at least one if there is any, and about as many as fit into `bytes_max`.
        Those whose body is in a message store come without it.
        """
        assert self.reader is not None
        self.reader.read(self, (start, end), bytes_max, done)

    # Less frequent parts of these.

    def _publish_late(self, sequence: int) -> None:
        """One that waited in memory, and is to leave it now."""
        self.is_ordered = False
        self.segmented_below = min(self.segmented_below, sequence)

    def _forget_dead(self) -> None:
        self.gathered = in_state(self.gathered, _GATHERED)
        self.gathered_stored = in_state(self.gathered_stored, _GATHERED)
        self.gathered_dead = 0
        weight, stored_weight = weigh_all(self.gathered), weigh_all(self.gathered_stored)
        stored_weight += self.lone.forget_dead()
        self.journal_credit.release(self.gathered_weight - weight)
        self.store_credit.release(self.stored_weight - stored_weight)
        self.gathered_weight, self.stored_weight = weight, stored_weight

    def _publish_embedded(self, queued: QueuedMessage) -> None:
        weight = queued.size + _ENTRY_BYTES
        self.gathered.append(queued)
        self.gathered_weight += weight
        self.journal_credit.charge(weight, None)

    def _publish_stored(self, queued: QueuedMessage) -> None:
        self._charge_store(queued)
        persistent = queued.message.properties.persistent
        (self.bodies if persistent else self.transient_bodies).write(queued)
        self.gathered_stored.append(queued)

    def _gather_body(self, queued: QueuedMessage) -> None:
        self._charge_store(queued)
        self.transient_bodies.write(queued)
        self.lone.gathered.append(queued)

    def _gather_entry(self, queued: QueuedMessage) -> None:
        """The entry of a message whose body is in a store already."""
        self._charge_store(queued)
        self.gathered_stored.append(queued)

    def _charge_store(self, queued: QueuedMessage) -> None:
        queued.state = _GATHERED
        self.stored_weight += queued.size + _ENTRY_BYTES
        self.store_credit.charge(queued.size + _ENTRY_BYTES, self.debtor)

    def _cancel(self, queued: QueuedMessage) -> None:
        """Not written yet: it never will be, and the publisher need not wait any longer."""
        queued.state = _DEAD
        self._answer(queued)
        self.gathered_dead += 1
        if queued.store_file != _EMBEDDED:
            self.transient_bodies.died(queued.store_file, queued.store_offset, queued.size)
        elif self.gathered_stored or self.lone.gathered:
            persistent = queued.message.properties.persistent
            (self.bodies if persistent else self.transient_bodies).cancel(queued)
        if self.gathered_dead > _DEAD_MIN and self.gathered_dead * 2 > len(self.gathered):
            self._forget_dead()

    def _answer(self, queued: QueuedMessage) -> None:
        """Nothing is owed to its publisher any more: it is safe, or was acknowledged before."""
        publisher = queued.publisher
        if publisher is not None:
            queued.publisher = None
            publisher.confirmed(queued.publisher_sequence)

    def _ack_transient(self, queued: QueuedMessage, state: int) -> bool:
        """Whether it was transient; then nothing is recorded."""
        segment = None
        if state == _SEGMENTED:
            segment = self.segments[queued.sequence >> _SEGMENT_SHIFT]
            is_transient = self.is_transient(queued)
        elif queued.store_file != _EMBEDDED:
            is_transient = queued.store_file >= _TRANSIENT_FILE_MIN
            if state == _STORED:
                del self.lone.stored[queued.sequence]
        else:
            is_transient = not queued.message.properties.persistent
        if not is_transient:
            return False
        if queued.store_file != _EMBEDDED:
            self.transient_bodies.died(queued.store_file, queued.store_offset, queued.size)
        if segment is not None:
            self.ack_places(segment, places_of(queued.sequence, 1), 0)
        return True

    def _ack_stored(self, queued: QueuedMessage, state: int) -> None:
        sequence, size = queued.sequence, queued.size
        file, offset = queued.store_file, queued.store_offset
        self.acks.append((sequence, 1, size, file, offset))
        self.bodies.died(file, offset, size)
        if state == _SEGMENTED:
            segment = self.segments[sequence >> _SEGMENT_SHIFT]
            self.ack_places(segment, places_of(sequence, 1), size)

    def ack_places(self, segment: Segment, places: int, body_bytes: int) -> None:
        count = segment.ack(places, body_bytes)
        assert count, "what is acknowledged was alive"
        self.acked_segments[segment.number] = segment
        if not segment.live:
            self.bury(segment)

    def bury(self, segment: Segment) -> None:
        """Its file can go once the acknowledgements are safe."""
        self.dead_segments.append(segment)
        if not self.is_dirty:
            self._become_lazily_dirty()

    def close_run(self) -> None:
        """From here on the segments say what is alive."""
        first, end = self._run_first, self._run_end
        if first == end:
            return
        body_bytes = self._run_bytes
        self.acks.append((first, end - first, body_bytes, _EMBEDDED, 0))
        if self._run_is_segmented:
            segment = self.segments[first >> _SEGMENT_SHIFT]
            self.ack_places(segment, places_of(first, end - first), body_bytes)
        self._run_first = self._run_end = 0
        self._run_bytes = 0

    def become_dirty(self) -> None:
        """There is something that somebody waits for."""
        self.is_urgent = True
        if not self.is_dirty:
            self.is_dirty = True
            self._dirty.mark(self)
        elif not self.is_patient:
            self._dirty.hurry()

    def commit(self) -> None:
        """Begin with the next batch now, if there is something that somebody waits for."""
        if self.is_urgent:
            self._dirty.hurry()

    def _become_lazily_dirty(self) -> None:
        self.is_dirty = True
        self._dirty.mark_lazily(self)

    # What a batch asks for.

    def encode(self, buffer: RecordBuffer, bytes_max: int) -> bool:
        """Put what was gathered into the batch; whether that was all of it."""
        self.close_run()
        queue_id = self.queue_id
        position = buffer.publishes(queue_id, self.gathered, 0, bytes_max)
        if position == len(self.gathered):
            self.writing, self.gathered = self.gathered, []
            self.writing_weight, self.gathered_weight = self.gathered_weight, 0
        else:
            self.writing = self.gathered[:position]
            del self.gathered[:position]
            self.writing_weight = self.gathered_weight - weigh_all(self.gathered)
            self.gathered_weight -= self.writing_weight
        self.writing_stored_weight, self.stored_weight = self.stored_weight, 0
        if self.gathered_stored:
            buffer.publishes(queue_id, self.gathered_stored, 0, UNBOUNDED)
            self._merge_stored()
        if self.lone.gathered:
            self.lone.take()
        self.gathered_dead = 0
        for first, count, body_bytes, file, offset in self.acks:
            if file == _EMBEDDED:
                buffer.ack(queue_id, first, count, body_bytes)
            else:
                buffer.ack_stored(queue_id, first, body_bytes, file, offset)
        self.writing_acks, self.acks = self.acks, []
        for start, end in self.ranges:
            buffer.ack_range(queue_id, start, end)
        self.writing_ranges, self.ranges = self.ranges, []
        self.writing_dead, self.dead_segments = self.dead_segments, []
        self.is_dirty = self.is_urgent = bool(self.gathered)
        return not self.is_dirty

    def _merge_stored(self) -> None:
        """Those with their body in a store are never left over, and embedded ones may be."""
        self.writing.extend(self.gathered_stored)
        self.writing.sort(key=attrgetter("sequence"))
        self.gathered_stored = []
        if self.gathered:
            self.is_ordered = False

    def written(self, journal_number: int) -> None:
        """The batch is safe, in this file of the journal."""
        writing, self.writing = self.writing, []
        has_bodies = self.writing_stored_weight != 0
        if self.lone.writing:
            self._lone_written()
        self._release_written()
        for queued in writing:
            if queued.state == _WRITING:
                queued.state = _JOURNALED
            else:
                assert queued.state == _DEAD, "a batch changes the state of its own"
                self.journaled_dead += 1
            self._answer(queued)
        if self.journaled:
            self.journaled.extend(writing)
        else:
            self.journaled = writing
            self.journaled_from = journal_number
        self.writing_acks, self.writing_ranges = [], []
        if self.writing_dead:
            self.removable.extend(self.writing_dead)
            self.writing_dead = []
        if has_bodies and self.on_stored is not None:
            self.on_stored()

    def _release_written(self) -> None:
        """What is in a batch, dead or alive, is charged until that is over."""
        self.journal_credit.release(self.writing_weight)
        self.store_credit.release(self.writing_stored_weight)
        self.writing_weight = self.writing_stored_weight = 0

    def _lone_written(self) -> None:
        weight = self.lone.written()
        if self.credit is not None:
            self.credit.release(weight)

    def unwritten(self) -> None:
        """Nothing of the batch is safe: it is all to be written anew, elsewhere."""
        writing, self.writing = self.writing, []
        later, self.gathered = self.gathered, []
        self._release_written()
        for queued in writing:
            if queued.state != _WRITING:
                self._answer(queued)
                continue
            if queued.store_file != _EMBEDDED:
                self._gather_entry(queued)
                continue
            queued.state = _GATHERED
            if self.is_stored(queued.message):
                self._publish_stored(queued)
            else:
                self._publish_embedded(queued)
        self.gathered.extend(later)
        for queued in self.lone.unwritten():
            self._gather_body(queued)
        self.acks = self.writing_acks + self.acks
        self.ranges = self.writing_ranges + self.ranges
        self.dead_segments = self.writing_dead + self.dead_segments
        self.writing_dead = []
        self.writing_acks = []
        self.writing_ranges = []
        if not self.is_urgent:
            self.become_dirty()

    def refuse(self) -> None:
        """Say no to the publishers of what waits; it may still be written one day."""
        for gathered in (self.gathered, self.gathered_stored):
            for queued in gathered:
                publisher = queued.publisher
                if publisher is not None:
                    if not isinstance(publisher, RetryingPublisher):
                        queued.publisher = None
                    publisher.rejected(queued.publisher_sequence)
