"""The master's copy of a stream: what its log writes, its mirrors are told.

A chunk is one broadcast (see `stream_instructions`), made when the log gives it offsets, so the
disks here and there work at the same time. When it is safe here and with every mirror of the
in-sync set, its publishers are told and readers may see it. All of that the master of any mirrored
queue does for its batches, and this is one (`MasterBacking`); but what is published waits in the
stream's own backing until the log takes it, each with whoever waits for it.

A mirror that comes tells its last chunks; where they part from the ones here is looked up, and from
there on it is sent what it lacks (`StreamCopier`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from warren.model.logs import EventLog
from warren.queues.boundary import PENDING, REJECTED, TAKEN, Publisher
from warren.replication.classic.batch import NOBODY, Batch, Unconfirmed
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.outbox import NOW
from warren.replication.classic.retained import RetainedMessages
from warren.replication.classic.ring import Ring
from warren.replication.stream.stream_instructions import (
    Began,
    Chunk,
    Copied,
    StreamInstruction,
    encode,
)
from warren.replication.stream.stream_mirror import StreamMirror, follow
from warren.replication.stream.stream_publishes import Waiting, charge_of, runs_of
from warren.streams.log import StreamLog
from warren.streams.pending_chunks import PendingChunk
from warren.streams.tail import Fingerprint, common_end, fingerprint_at
from warren.wire.codec import Message

_log = EventLog("streams")


class StreamCoverage:
    """How far a mirror has come that is not in sync; None while that is being looked up."""

    def __init__(self) -> None:
        self.upto: int | None = None
        self.kept = 0


class StreamMaster(MasterBacking):
    """`inner` is the backing of the log."""

    def __init__(self, log: StreamLog, origin: str, ring: Ring) -> None:
        super().__init__(log.backing, origin, ring)
        self.log = log
        self._ends: dict[Batch, int] = {}
        self._unwritten: deque[tuple[int, Callable[[], None]]] = deque()
        """What to do when the log is safe up to these offsets."""
        self._told_numbers: dict[str, int] = {}
        """The last publish of each origin that mirrors were told, as they have it."""
        self._early: deque[tuple[Publisher | None, int]] = deque()
        """Who published before there were mirrors, and waits for the disk alone."""
        self._former: StreamMirror | None = None
        self._inherited_end: int | None = None
        self._is_dissolved = False
        self.lagging: dict[str, StreamCoverage] = {}
        """Mirrors that are not in sync."""
        self.on_lacking: Callable[[], None] | None = None
        """Some mirror is to be sent chunks."""

    def begin(self) -> None:
        """Of a stream that this node has had for itself until now."""
        log, backing = self.log, self.log.backing
        if backing.flight_publishers:
            self._await_early(zip(backing.flight_publishers, backing.flight_sequences, strict=True))
        gathered = zip(backing.messages, backing.publishers, backing.sequences, strict=True)
        backing.publishers = [self._waiting(*each) for each in gathered]
        log.hold(self, log.end_offset)

    def _await_early(self, told: Iterable[tuple[Publisher | None, int]]) -> None:
        """What was on its way to the disk when the first mirror was not there yet."""
        early, end = list(told), self.log.next_offset
        self._early.extend(early)

        def written() -> None:
            self.log.release(end)
            self._confirm_early(len(early))

        self._unwritten.append((end, written))

    def _confirm_early(self, count: int) -> None:
        for publisher, sequence in [self._early.popleft() for _ in range(count)]:
            if publisher is not None:
                publisher.confirmed(sequence)

    def inherit(self, mirror: Mirror, first_sequence: int) -> None:
        assert isinstance(mirror, StreamMirror), "it was one of this stream"
        super().inherit(mirror, first_sequence)
        self._former = mirror
        self._told_numbers = dict(mirror.numbers)
        self.log.hold(self, min(mirror.committed, self.log.written_end))
        self.log.is_settled = False
        self._inherited_end = self.log.next_offset
        self.ring.flush_due(self, NOW)

    def flush(self) -> None:
        """By now it is known who is in sync: what was inherited is shown when all have it."""
        super().flush()
        if self._inherited_end is not None:
            show = partial(self._show_inherited, self._inherited_end)
            self._inherited_end = None
            self.when_settled(show)

    def _show_inherited(self, end: int) -> None:
        self.log.is_settled = True
        self.log.release(end)

    def dissolve(self) -> None:
        """The stream goes on without mirrors."""
        self._is_dissolved = True
        self.lagging.clear()
        self.set_in_sync(())
        self.under_way.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._is_dissolved and not self._unwritten:
            self.log.let_go()

    # What a queue asks of it.

    def publish(
        self, message: Message, expires_at_ms: int, publisher: Publisher | None, sequence: int
    ) -> int:
        if self.log.backing.is_refusing:
            return REJECTED
        waiting = self._waiting(message, publisher, sequence)
        self.log.backing.publish(message, 0, waiting, 0)
        return TAKEN if publisher is None else PENDING

    def _waiting(self, message: Message, publisher: Publisher | None, sequence: int) -> Waiting:
        origin = None if publisher is None else publisher.origin
        if origin is None:
            self.local_number += 1
            number = self.local_number
            run = (self.origin, number, 1)
        else:
            number = 0
            self.numbers[origin] = sequence
            run = (origin, sequence, 1)
        waiting = Waiting(publisher or NOBODY, (sequence, number), message, run)
        waiting.on_rejected = self._refund
        self.credit.charge(charge_of(message))
        return waiting

    def _refund(self, size: int) -> None:
        """What never got an offset; at the end all that was charged is given back at once."""
        if not (self._is_dissolved or self.is_deposed):
            self.credit.release(size)

    def delete(self) -> None:
        super().delete()
        self._confirm_early(len(self._early))

    def status(self, now_ms: int) -> dict[str, Any]:
        return {"mirror_seen": 0, "mirror_senders": len(self.numbers)}

    # What its log tells.

    def encoded(self, chunks: list[PendingChunk]) -> None:
        backing = self.log.backing
        if self._is_dissolved:
            self._await_early(zip(backing.flight_publishers, backing.flight_sequences, strict=True))
            return
        # All of them: `publish` and `begin` have put a `Waiting` in the place of each publisher.
        publishers = cast("list[Waiting]", backing.flight_publishers)
        start = 0
        for chunk in chunks:
            self._tell_chunk(chunk, publishers[start : start + chunk.records])
            start += chunk.records

    def _tell_chunk(self, chunk: PendingChunk, waiting: list[Waiting]) -> None:
        batch = self.batch
        batch.waiting = list(waiting)
        batch.unsafe_here = 1
        batch.size = sum([charge_of(each.message) for each in waiting])
        self._ends[batch] = chunk.end
        self._unwritten.append((chunk.end, partial(batch.confirmed, 0)))
        for coverage in self.lagging.values():
            if coverage.upto == chunk.first_offset:
                coverage.upto = chunk.end
        origins = runs_of(waiting)
        follow(origins, self._told_numbers)
        self._say(Chunk(origins, self.log.first_offset, self.log.end_offset), chunk.pieces)

    def _say(self, instruction: StreamInstruction, pieces: Iterable[bytes] = ()) -> None:
        self._broadcast(encode(self.number + 1, instruction, [*pieces]))
        self.ring.flush_due(self, NOW)

    def written(self, end: int) -> None:
        if self._former is not None:
            self._former.written(end)
        while self._unwritten and self._unwritten[0][0] <= end:
            self._unwritten.popleft()[1]()
        self._let_go()

    def failed(self) -> None:
        """It is tried again; meanwhile a mirror leads, or who publishes is refused."""

    def counted(self) -> None:
        self.length = self.log.backing.length
        self.ready_bytes = self.log.backing.ready_bytes

    def _answer(self, batch: Batch) -> None:
        """It is safe everywhere: readers may see it, publishers are told."""
        self.log.release(self._ends.pop(batch))
        super()._answer(batch)

    # What its replica asks of it.

    def depose(self) -> list[Unconfirmed]:
        own = super().depose()
        backing = self.log.backing
        gathered = [publisher for publisher, _ in backing.drop_gathered()]
        own += [each for each in gathered if isinstance(each, Waiting) and each.number]
        backing.land()
        self.log.hold(None, self.log.end_offset)
        self.log.is_settled = True
        self._unwritten.clear()
        for publisher, sequence in self._early:  # whoever leads may never have heard of it
            if publisher is not None:
                publisher.rejected(sequence)
        self._early.clear()
        return sorted(own, key=lambda unconfirmed: unconfirmed.number)

    def set_in_sync(self, members: Iterable[str]) -> None:
        super().set_in_sync(members)
        for member in self.in_sync:
            self.lagging.pop(member, None)

    def forget_member(self, member: str) -> None:
        super().forget_member(member)
        self.lagging.pop(member, None)

    def begin_with(self, member: str, remains: RetainedMessages) -> None:
        """A mirror has come, with these chunks."""
        coverage = self.lagging[member] = StreamCoverage()
        self.log.workers.spawn(self._look_up(member, coverage, remains.runs))

    async def _look_up(
        self, member: str, coverage: StreamCoverage, theirs: list[Fingerprint]
    ) -> None:
        find = self._finder()
        base = self.log.first_offset
        known = [chunk for chunk in theirs if chunk[1] >= base]
        try:
            kept = await self.log.workers.run_in_thread(partial(common_end, known, find))
        except FileNotFoundError:  # retention was quicker
            kept = None
        except Exception as error:  # noqa: BLE001 - its copy may be the best one left: keep it
            _log.exception(
                "stream cannot be compared with mirror", error, stream=self.log.name, mirror=member
            )
            return
        if self.lagging.get(member) is not coverage or self.is_deposed:
            return
        self._tell_began(member, coverage, kept)

    def begin_anew(self, member: str) -> None:
        """What the mirror has is of no use: the stream has moved on."""
        self._tell_began(member, self.lagging[member], None)

    def _tell_began(self, member: str, coverage: StreamCoverage, kept: int | None) -> None:
        base = self.log.first_offset
        if kept is not None and kept < base:
            kept = None
        coverage.upto = base if kept is None else kept
        coverage.kept = max(0, coverage.upto - base)
        self._say(Began(member, kept, base, self._told_numbers, self.log.end_offset))
        self._see_to(member, coverage)

    def _finder(self) -> Callable[[Fingerprint], bool]:
        """Says whether a chunk is also here; it may block."""
        newest = {first: own for own, first, _ in self.log.tail.fingerprints()}
        segments, reader = self.log.safe_segments(), self.log.reader

        def has(chunk: Fingerprint) -> bool:
            own = newest.get(chunk[1])
            return chunk[0] == (fingerprint_at(reader, segments, chunk[1]) if own is None else own)

        return has

    def copy_to(self, member: str, chunks: Iterable[bytes], end: int) -> None:
        """Send a mirror what it lacks, up to an offset."""
        coverage = self.lagging[member]
        coverage.upto = end
        self._say(Copied(member), chunks)
        self._see_to(member, coverage)

    def _see_to(self, member: str, coverage: StreamCoverage) -> None:
        if coverage.upto == self.log.next_offset:
            self.ring.covered(member)
        elif self.on_lacking is not None:
            self.on_lacking()
