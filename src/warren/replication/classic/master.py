"""The master's copy: a backing queue around the one that keeps the messages.

It does what it is asked and notes what the mirrors have to be told (`instructions`); the notes are
one batch, which goes round the ring with those of other queues (`cluster/gathering`). Publishers
hear of a message when its batch is safe here and with every mirror of the in-sync set (`batch`).

A batch costs each node a frame, a wake-up and a sync of its disk, whether it brings one message or
a hundred. So while one is under way the next one waits for it, but not for long.

Mirrors that are not in sync get every batch too. Nobody waits for them; how much they lack is known
here (`coverage`), and whoever lacks nothing any more can be taken into the in-sync set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from warren.queues.backing import BackingQueue, Level
from warren.queues.backing_figures import BackingFigures
from warren.queues.boundary import PENDING, TAKEN, Publisher
from warren.replication.classic.batch import NOBODY, Batch, Unconfirmed
from warren.replication.classic.coverage import Coverage, runs_by_level
from warren.replication.classic.instructions import (
    Boundary,
    Instruction,
    Newer,
    Older,
    Purged,
    Resumed,
    encode,
)
from warren.replication.classic.message_frames import encode_messages
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.outbox import MANY_MESSAGES, NOW, SOON, Outbox
from warren.replication.classic.own_deliveries import own_deliveries
from warren.replication.classic.ring import Ring
from warren.replication.classic.under_way import UnderWay
from warren.storage.queue.replication import offer_again
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, QueuedMessage

MESSAGE_BYTES: Final = 512
"""What a message counts besides its body."""
BATCH_BYTES_MAX: Final = 262_144
"""A batch that is larger goes out before the turn ends, so that mirrors begin to work on it."""


class MasterBacking(BackingQueue):
    def __init__(self, inner: BackingQueue, origin: str, ring: Ring) -> None:
        self.inner = inner
        self.origin = origin
        """This node, as it numbers publishes of its own clients to this queue."""
        self.ring = ring
        self.under_way = UnderWay()
        self.credit = self.under_way.credit
        self.held_by = self.under_way.held_by
        self.numbers: dict[str, int] = {}
        """The last number of each other origin."""
        self.local_number = 0
        self.number = 0
        """Of the last batch that went out."""
        self._inherited = 0
        self._unsettled: list[Callable[[], None]] = []
        self._mirror: Mirror | None = None
        self.unacked: dict[tuple[int, int], QueuedMessage] = {}
        self.outbox = Outbox(self._due)
        self.batch = Batch(self._complete, self._refused)
        self._incomplete: dict[Batch, None] = {}
        self.coverages: dict[str, Coverage] = {}
        self.departed: set[tuple[int, int]] | None = None
        """What has gone since a synchroniser asked to be told; a purge makes it None."""
        self.is_frozen = False
        self.on_frozen: Callable[[], None] | None = None
        self.on_thawed: Callable[[], None] | None = None
        self.is_deposed = False
        self.is_promoted = False
        self.is_leaving = False
        """What nobody waits for is kept, too, until it is everywhere."""
        self._complete_batches: list[Batch] = []
        self._before_batch: Callable[[], None] | None = None
        self._is_closing_batch = False
        self._count()

    # What a queue asks of it.

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        self._tell(message, expires_at_ms)
        if publisher is None and self.is_leaving:
            place = self._wait(message, NOBODY, 0)
            outcome = self.inner.publish(message, expires_at_ms, self.batch, place)
            if outcome == TAKEN:
                self.batch.confirmed(place)
            outcome = TAKEN
        elif publisher is None:
            outcome = self.inner.publish(message, expires_at_ms, None, 0)
        else:
            place = self._wait(message, publisher, sequence)
            outcome = self.inner.publish(message, expires_at_ms, self.batch, place)
            if outcome == TAKEN:
                self.batch.confirmed(place)
                outcome = PENDING
        self._count()
        return outcome

    def publish_delivered(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        level = self._tell(queued.message, queued.expires_at_ms)
        if publisher is None:
            outcome = self.inner.publish_delivered(queued, None, 0)
        else:
            place = self._wait(queued.message, publisher, sequence)
            outcome = self.inner.publish_delivered(queued, self.batch, place)
            if outcome == TAKEN:
                self.batch.confirmed(place)
                outcome = PENDING
        self.unacked[(level, queued.sequence)] = queued
        self._count()
        return outcome

    def publish_along(
        self, queued: QueuedMessage, publisher: Publisher | None, sequence: int
    ) -> int:
        """`publish_delivered`, in one batch with all that was published before, however large."""
        self._is_closing_batch = True
        try:
            return self.publish_delivered(queued, publisher, sequence)
        finally:
            self._is_closing_batch = False

    def before_batch(self, tell: Callable[[], None]) -> None:
        self._before_batch = tell

    def mark_redelivered(self, message: Message) -> None:
        self.inner.mark_redelivered(message)

    def _tell(self, message: Message, expires_at_ms: int) -> int:
        """Note it for the mirrors, under the number that it is about to get; its level."""
        if self.outbox.size > BATCH_BYTES_MAX and not self._is_closing_batch:
            # Not once the message is in it: alone, this node might confirm the batch at once.
            self.flush()
        size = len(message.body) + MESSAGE_BYTES
        self.batch.size += size
        self.credit.charge(size)
        level = self.inner.level_number(message)
        self.outbox.publish(message, level, self.inner.next_sequence_of(message), expires_at_ms)
        return level

    def _wait(self, message: Message, publisher: Publisher, sequence: int) -> int:
        """Have the publisher told when the message is safe; its place in the batch."""
        origin = publisher.origin
        if origin is None:
            self.local_number += 1
            number = self.local_number
            self.outbox.origin(self.origin, number)
        else:
            number = 0
            self.numbers[origin] = sequence
            self.outbox.origin(origin, sequence)
        return self.batch.add(Unconfirmed(publisher, sequence, number, message))

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        if self.is_frozen or self.is_deposed:
            return None
        queued = self.inner.fetch(ack_required)
        if queued is not None:
            level = self.inner.level_number(queued.message)
            if ack_required:
                self.unacked[(level, queued.sequence)] = queued
            else:
                self._gone(level, queued)
        self._count()
        return queued

    def head(self) -> QueuedMessage | None:
        if self.is_frozen or self.is_deposed:
            return None
        return self.inner.head()

    def own(self, run: list[QueuedMessage]) -> list[QueuedMessage]:
        return own_deliveries(self.unacked, self.inner, run) if self.is_promoted else run

    def ack(self, run: list[QueuedMessage]) -> None:
        if self.is_deposed:
            return
        run = self.own(run)
        for queued in run:
            level = self.inner.level_number(queued.message)
            if self.unacked.pop((level, queued.sequence), None) is not None:
                self._gone(level, queued)
        self.inner.ack(run)
        self._count()

    def requeue(self, run: list[QueuedMessage]) -> None:
        if self.is_deposed:
            return
        known = []
        for queued in self.own(run):
            level = self.inner.level_number(queued.message)
            if self.unacked.pop((level, queued.sequence), None) is not None:
                known.append(queued)
            else:
                self._publish_again(queued)
        self.inner.requeue(known)
        self._count()

    def drop_unacked(self, run: list[QueuedMessage]) -> None:
        """Only those that mirrors know: another that comes back is published again, as a whole."""
        self.inner.drop_unacked(own_deliveries(self.unacked, self.inner, run))

    def load_unacked(
        self, run: list[QueuedMessage], done: Callable[[list[QueuedMessage]], None]
    ) -> None:
        self.inner.load_unacked(run, done)

    def _publish_again(self, queued: QueuedMessage) -> None:
        """Somebody had it before there were mirrors; they have no place for it but the tail."""
        self.inner.ack([queued])
        self.publish(queued.message, queued.expires_at_ms, None, 0)

    def _gone(self, level: int, queued: QueuedMessage) -> None:
        count = len(self.coverages)
        if count:
            self._uncover(level, queued.sequence)
        self.outbox.remove(level, queued.sequence, queued.size)
        if len(self.coverages) < count:
            self.outbox.close_removed()  # what follows is above that mirror's boundary

    def _uncover(self, level: int, sequence: int) -> None:
        """Some mirror may never have had it."""
        if self.departed is not None:
            self.departed.add((level, sequence))
        for member, coverage in tuple(self.coverages.items()):
            if coverage.is_edge(level, sequence):
                # A mirror forgets a run as a whole: one run must not begin below its boundary.
                self.outbox.close_removed()
            if coverage.removed(level, sequence):
                self.ring.covered(member)

    def purge(self) -> int:
        count = self.inner.purge()
        self.departed = None
        self._count()
        self.flush()
        kept = runs_by_level(self.unacked)
        self._tell_all(Purged(self.next_sequences(), kept))
        for member, coverage in tuple(self.coverages.items()):
            coverage.purged(kept)
            if coverage.is_complete:
                self.ring.covered(member)
        return count

    async def browse(self, offset: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
        return await self.inner.browse(offset, limit, bytes_max)

    def level_number(self, message: Message) -> int:
        return self.inner.level_number(message)

    def items(self) -> Iterable[tuple[int, Level]]:
        return self.inner.items()

    def next_sequence_of(self, message: Message) -> int:
        return self.inner.next_sequence_of(message)

    def local(self) -> BackingQueue:
        return self.inner

    def set_lazy(self, lazy: bool) -> None:
        self.inner.set_lazy(lazy)

    def figures(self) -> BackingFigures:
        return self.inner.figures()

    def status(self, now_ms: int) -> dict[str, Any]:
        return {**self.inner.status(now_ms), "mirror_seen": 0, "mirror_senders": len(self.numbers)}

    def peek(self) -> QueuedMessage | None:
        return self.inner.peek()

    def is_in_flow(self, now_ms: int, memory_ms: int) -> bool:
        return self.inner.is_in_flow(now_ms, memory_ms)

    def delete(self) -> None:
        """The queue is gone for everybody, so nobody is owed more than that it took the message."""
        self.is_deposed = True
        self.inner.delete()
        self._count()
        for batch in (*self._incomplete, self.batch):
            batch.answer()
        unsettled, self._unsettled = self._unsettled, []
        for tell in unsettled:
            tell()

    # What its replica asks of it.

    def adopt_unacked(self, run: Iterable[QueuedMessage]) -> None:
        """What clients have of a queue that was not mirrored until now."""
        for queued in run:
            level = self.inner.level_number(queued.message)
            self.unacked[(level, queued.sequence)] = queued
        self._count()

    def inherit(self, mirror: Mirror, first_sequence: int) -> None:
        """Go on from what a mirror has, which this node was until now, with numbers of our own."""
        for queue in self.level_queues().values():
            queue.next_sequence = max(queue.next_sequence, first_sequence)
        self.is_promoted = True
        self.number = self._inherited = mirror.number
        self.numbers = dict(mirror.numbers)
        self.local_number = self.numbers.pop(self.origin, 0)
        self._mirror = mirror
        if mirror.is_marked:
            for level in mirror.levels.values():
                offer_again(level)

    @property
    def is_settled(self) -> bool:
        """Whether all that was inherited is with everybody in sync, on disk if need be.

        Before, what was published to the master before us must not be called safe.
        """
        if self._mirror is not None and self._mirror.held >= self._inherited:
            self._mirror = None
        held = self.under_way.held_everywhere()
        return self._mirror is None and (held is None or held >= self._inherited)

    def when_settled(self, tell: Callable[[], None]) -> None:
        if self.is_settled:
            tell()
        else:
            self._unsettled.append(tell)

    def settle(self) -> None:
        """Something has become safe: what was inherited may be by now."""
        if self._unsettled and self.is_settled and not self.is_frozen:
            unsettled, self._unsettled = self._unsettled, []
            for tell in unsettled:
                tell()

    def level_queues(self) -> dict[int, VariableQueue]:
        """The levels of a mirrored queue, all of which are on disk; a stream has none."""
        levels: dict[int, VariableQueue] = {}
        for number, level in self.inner.items():
            assert isinstance(level, VariableQueue), "mirrored queues are on disk"
            levels[number] = level
        return levels

    def kept_count(self) -> int:
        """Number of messages that mirrors must have, the ids of a deduplicating queue included."""
        return sum([level.length for _, level in self.inner.items()]) + len(self.unacked)

    def next_sequences(self) -> dict[int, int]:
        return {number: level.next_sequence for number, level in self.inner.items()}

    def flush(self) -> None:
        """Tell the mirrors what this turn brought."""
        if not self.outbox.is_empty and not self.is_deposed:
            if self._before_batch is not None:
                self._before_batch()
            self._broadcast(self.outbox.take(self.number + 1))

    def _tell_all(self, instruction: Instruction) -> None:
        """Tell the mirrors at the end of the turn: a queue that is declared waits for them."""
        self._broadcast(encode(self.number + 1, instruction))
        self.ring.flush_due(self, NOW)

    def _broadcast(self, payload: bytes) -> None:
        batch, self.batch = self.batch, Batch(self._complete, self._refused)
        self.number += 1
        batch.number = self.number
        self.ring.broadcast(payload)
        if batch.waiting:
            self._incomplete[batch] = None
        if batch.size:
            self.under_way.add(batch)

    def _due(self, urgency: int) -> None:
        """There is something to tell. While a batch is under way the next one waits for it."""
        if urgency == NOW and not self.under_way.is_clear:
            urgency = SOON
        self.ring.flush_due(self, urgency)

    @property
    def in_sync(self) -> frozenset[str]:
        """The mirrors of the committed in-sync set."""
        return self.under_way.in_sync

    def held(self, member: str, number: int) -> None:
        """A mirror has, on disk if need be, everything up to this broadcast."""
        if self.under_way.held(member, number):
            self._went_on()

    def set_in_sync(self, members: Iterable[str]) -> None:
        """The committed in-sync set, without this node."""
        self.under_way.set_in_sync(members)
        for member in self.under_way.in_sync:
            self.coverages.pop(member, None)
        self._went_on()

    def _went_on(self) -> None:
        if self.outbox.message_count >= MANY_MESSAGES and self.under_way.is_clear:
            self.ring.flush_due(self, NOW)
        if self._unsettled:
            self.settle()

    def room_changed(self, has_room: bool) -> None:
        """The ring takes more, or had better not."""
        self.under_way.room_changed(has_room)

    def _complete(self, batch: Batch) -> None:
        if batch.waiting and (self.is_frozen or self.is_deposed):
            self._complete_batches.append(batch)
        elif batch.waiting:
            self._answer(batch)

    def _refused(self) -> bool:
        return self.is_deposed or self.ring.refused()

    def _answer(self, batch: Batch) -> None:
        del self._incomplete[batch]
        batch.answer()

    def freeze(self) -> None:
        """No confirms and no deliveries until `thaw`: whether this is still the master is open."""
        self.is_frozen = True
        if self.on_frozen is not None:
            self.on_frozen()

    def thaw(self) -> None:
        self.is_frozen = False
        complete, self._complete_batches = self._complete_batches, []
        for batch in complete:
            self._answer(batch)
        self.settle()
        if self.on_thawed is not None:
            self.on_thawed()

    def begin_leaving(self) -> None:
        """Another one is to be master: tell the mirrors all there is to tell."""
        self.is_leaving = True
        self.flush()

    def stay(self) -> None:
        self.is_leaving = False

    def begin_member(self, member: str) -> None:
        """A new mirror is in the ring: what comes from now on it holds."""
        self.flush()
        boundary = self.next_sequences()
        numbers = {**self.numbers, self.origin: self.local_number}
        lacking = self.kept_count()
        self._tell_all(Boundary(member, boundary, numbers, lacking))
        self.coverages[member] = Coverage(dict(boundary), lacking)
        if self.coverages[member].is_complete:
            self.ring.covered(member)

    def resume_member(self, resumed: Resumed, coverage: Coverage) -> None:
        """A mirror comes back, and may keep some of what it has."""
        self.flush()
        self._tell_all(resumed)
        self.coverages[resumed.member] = coverage

    def tell_newer(self, newer: Newer, messages: list[Message]) -> None:
        """Send messages to a mirror that came back before them; nothing is to be flushed."""
        self._broadcast(encode(self.number + 1, newer, encode_messages(messages)))
        if self.coverages[newer.member].brought(newer.level, newer.end, newer.is_last):
            self.ring.covered(newer.member)

    def tell_older(self, older: Older, messages: list[Message]) -> None:
        """Send messages to mirrors that came after them."""
        self.flush()
        self._broadcast(encode(self.number + 1, older, encode_messages(messages)))
        span = (older.level, older.below, older.boundary)
        for member, coverage in tuple(self.coverages.items()):
            if coverage.sent(*span, len(messages)):
                self.ring.covered(member)

    def forget_member(self, member: str) -> None:
        self.coverages.pop(member, None)
        self.held_by.pop(member, None)

    def depose(self) -> list[Unconfirmed]:
        """Another one is master now. What our own clients wait for; the rest asks for itself."""
        self.is_deposed = True
        for queued in self.unacked.values():
            queued.redelivered = True
        self.inner.requeue(list(self.unacked.values()))
        self.unacked.clear()
        self.under_way.close()
        waiting = [w for batch in (*self._incomplete, self.batch) for w in batch.waiting]
        own = [w for w in waiting if w is not None and w.number]
        return sorted(own, key=lambda unconfirmed: unconfirmed.number)

    def _count(self) -> None:
        self.length = self.inner.length
        self.ready_bytes = self.inner.ready_bytes
        self.unacked_count = self.inner.unacked_count
