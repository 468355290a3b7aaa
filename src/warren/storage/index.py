"""The index of a virtual host: which messages its durable queues have, safe on disk.

    IndexStore ── Batches ── Journal            what is new, made safe by one commit for all queues
        │  └───── Scatter ── segments           what stays longer, queue by queue; checkpoints
        │  └───── SegmentReading                bringing it back
        └─ QueueIndex, one per queue            publish, ack
        └─ Recovery                             at the start

Beside its work the index keeps house, one thing after another, in `_keep_house`: files of segments
that are dead are deleted, and when the journal is long enough it is scattered to segments.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from warren.storage.batches import Batches
from warren.storage.checkpoint import encode_queue
from warren.storage.disk import replace_file
from warren.storage.funerals import Funerals, sweep
from warren.storage.index_host import Bodies, IndexHost
from warren.storage.index_records import RecordBuffer
from warren.storage.journal import JOURNAL_FILE_BYTES, Journal
from warren.storage.layout import IndexLayout, encode_name
from warren.storage.queue_index import QueueIndex
from warren.storage.recovery import Findings, RecoveringQueue, Recovery
from warren.storage.scatter import Scatter
from warren.storage.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT
from warren.storage.segment_reading import SegmentReading
from warren.wire.codec import QueuedMessage

RETRY_S: Final = 1.0

_log = logging.getLogger("warren.storage")


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    start: int
    end: int
    count: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class RecoveredQueue:
    """What a queue had when the node stopped: the older part in segments, the newer in memory."""

    name: str
    next_sequence: int
    segments: list[RecoveredSegment]
    journaled: list[QueuedMessage]

    @property
    def count(self) -> int:
        return sum(segment.count for segment in self.segments) + len(self.journaled)


@dataclass(slots=True)
class _Chores:
    """What is to be done beside the work."""

    dead: list[QueueIndex] = field(default_factory=list)
    funerals: list[QueueIndex] = field(default_factory=list)
    wants_checkpoint: bool = False
    incompressible_bytes: int = 0
    """How long the journal still was after it was made as short as possible."""
    is_running: bool = False
    is_closing: bool = False


class IndexStore:
    """One per virtual host. Everything is called on the loop."""

    def __init__(
        self, layout: IndexLayout, host: IndexHost, bodies: Bodies, transient_bodies: Bodies
    ) -> None:
        self.layout: Final = layout
        self.journal_file_bytes = JOURNAL_FILE_BYTES
        self.embed_below = 4_096
        self.on_failure: Callable[[OSError], None] | None = None
        self.findings = Findings()
        self.queues: dict[str, QueueIndex] = {}
        self._host = host
        self._stores = (bodies, transient_bodies)
        self._chores = _Chores()
        self._is_open = False
        self._house: Awaitable[None] | None = None
        # Deleted, but the message store is still to be told of their bodies.
        self._zombies: dict[QueueIndex, None] = {}
        self._next_queue_id = 1

    # Start and end.

    async def open(self) -> list[RecoveredQueue]:
        """Raises NewerFormat, before anything is changed, and OSError."""
        host = self._host
        recovery = Recovery(self.layout, host.disk)
        await host.workers.run_in_thread(recovery.load)
        checkpoint = recovery.checkpoint
        bodies, transient_bodies = self._stores
        await bodies.open(None if checkpoint is None else checkpoint.store_state)
        await transient_bodies.open(None)
        await host.workers.run_in_thread(partial(recovery.replay, bodies))
        await bodies.recovered()
        await transient_bodies.recovered()
        if checkpoint is not None and not recovery.findings.is_clean:
            states = [q.state for q in (*recovery.queues.values(), *recovery.deleted)]
            await host.workers.run_in_thread(partial(sweep, self.layout, host.disk, states))
        self.findings = recovery.findings
        self._report()
        salt = host.random_bits(32) if recovery.salt is None else recovery.salt
        await self._begin_journal(recovery, salt)
        self._next_queue_id = recovery.next_queue_id
        recovered = [self._adopt(queue) for queue in recovery.queues.values()]
        for deleted in recovery.deleted:
            self._adopt_deleted(deleted)
        if not self.findings.is_clean and not recovery.is_new:
            self._chores.wants_checkpoint = True
        self._is_open = True
        self._wake()
        return recovered

    async def _begin_journal(self, recovery: Recovery, salt: int) -> None:
        host = self._host
        journal = Journal(self.layout, host.disk, salt)
        self._oldest_journal = min(recovery.journal_sizes, default=0)
        for number, size in recovery.journal_sizes.items():
            journal.keep(number, size)
        if recovery.journal_sizes:
            newest = max(recovery.journal_sizes)
            journal.resume_after(newest, recovery.journal_sizes[newest])
        buffer = RecordBuffer(salt)
        self._batches = Batches(host, journal, buffer, self._stores)
        self._batches.embed_below = self.embed_below
        self._batches.on_done = self._batch_done
        self._batches.on_failure = self._failed
        self._scatter = Scatter(host, self.layout, self._batches, salt)
        self._reading = SegmentReading(host, self.layout, salt)
        self._funerals = Funerals(host, self.layout, self._batches, salt)
        number = journal.new_number()

        def create() -> int:
            replace_file(host.disk, self.layout.vhost_file, [encode_name(self.layout.vhost)])
            return journal.create(number)

        journal.begin(number, await host.workers.run_in_thread(create))

    def _adopt(self, recovering: RecoveringQueue) -> RecoveredQueue:
        """Take over a queue from before the start."""
        state = recovering.state
        queue = self._make(state.queue_id, state.name)
        past = max([state.next_sequence, *((n + 1) << SEGMENT_SHIFT for n in state.segments)])
        queue.next_sequence = -(-past // SEGMENT_ENTRIES) * SEGMENT_ENTRIES
        queue.segments = state.segments
        queue.has_directory = any(segment.live for segment in state.segments.values())
        queue.acked_segments = {n: s for n, s in state.segments.items() if s.unwritten_acks}
        queue.delivered = state.delivered
        queue.redelivered_below = state.redelivered_below
        if not self.findings.is_clean:
            queue.redelivered_below = queue.next_sequence
        queue.journaled = sorted(recovering.journaled.values(), key=lambda q: q.sequence)
        first = [queued.sequence for queued in queue.journaled[:1]]
        queue.segmented_below = min(first, default=queue.next_sequence)
        queue.journaled_from = self._oldest_journal
        self._reading.mark_redelivered(queue, queue.journaled)
        queue.blob = encode_queue(queue)
        self._batches.touched[queue] = None
        for segment in list(state.segments.values()):
            if not segment.live:
                queue.removable.append(segment)
            elif segment.doomed:
                queue.doomed_segments.append(segment)
        queue.ack(list(recovering.orphans.values()))
        if queue.removable:
            self._chores.dead.append(queue)
        if queue.doomed_segments:
            self._chores.funerals.append(queue)
        return _recovered(queue)

    def _adopt_deleted(self, recovering: RecoveringQueue) -> None:
        """A deletion that was not finished."""
        state = recovering.state
        queue = QueueIndex(self._batches, state.queue_id, state.name)
        queue.segments = state.segments
        queue.ack(list(recovering.orphans.values()))
        self._mourn(queue)

    def _report(self) -> None:
        findings = self.findings
        for problem in findings.problems:
            _log.error("vhost %r: %s", self.layout.vhost, problem)
        if findings.checkpoint_problem:
            _log.warning(
                "vhost %r: no use of the checkpoint, %s; all %d segments were read",
                self.layout.vhost, findings.checkpoint_problem, findings.segments_read,
            )  # fmt: skip

    async def close(self, delivered: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> None:
        """Write down what is needed to go on; `delivered` are runs (first, count) per queue."""
        self._chores.is_closing = True
        self._batches.stop_retrying()
        if self._house is not None:
            await self._house
        try:
            await self._close_cleanly(delivered or {})
        except OSError as error:
            _log.error("vhost %r: no clean stop: %s", self.layout.vhost, error)
        await self._host.workers.run_in_thread(self._batches.journal.close)

    async def _close_cleanly(self, delivered: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        await self._batches.close()
        for name, queue in self.queues.items():
            queue.delivered = [*queue.delivered, *delivered.get(name, ())]
            queue.close_run()
            queue.blob = encode_queue(queue)
        await self._checkpoint(is_clean=True)

    # Queues.

    def queue(self, name: str) -> QueueIndex:
        return self.queues.get(name) or self._make(self._new_id(), name)

    async def delete_queue(self, name: str) -> None:
        """Forget the queue and all it has; returns when that would survive a power cut."""
        queue = self.drop_queue(name)
        if queue is not None:
            await self.bury_queue(queue)

    def drop_queue(self, name: str) -> QueueIndex | None:
        """Forget the queue now, so that another one may have its name."""
        queue = self.queues.pop(name, None)
        if queue is not None:
            queue.discard()
            self._batches.delete(queue.queue_id)
            self._reading.forget(queue.queue_id)
            self._mourn(queue)
        return queue

    async def bury_queue(self, queue: QueueIndex) -> None:
        """Return when it would survive a power cut that a queue was dropped."""
        assert queue.is_deleted
        await self._batches.flush()

    def read(
        self,
        queue: QueueIndex,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        """Messages that are in segments, the first of `span`, in order; at least one if any is."""

        async def read() -> None:
            done(await self._reading.read(queue, *span, bytes_max))

        self._host.workers.spawn(read())

    async def flush(self) -> None:
        """Return when all that was asked for until now is safe."""
        await self._batches.flush()

    def want_checkpoint(self) -> None:
        """Have everything that is journaled in segments, soon."""
        self._chores.wants_checkpoint = True
        self._wake()

    @property
    def is_failing(self) -> bool:
        return self._batches.is_failing

    @property
    def journal_bytes(self) -> int:
        return self._batches.journal.total_bytes

    def _new_id(self) -> int:
        self._next_queue_id += 1
        return self._next_queue_id - 1

    def _make(self, queue_id: int, name: str) -> QueueIndex:
        queue = QueueIndex(self._batches, queue_id, name)
        queue.reader = self
        self.queues[name] = queue
        return queue

    def _failed(self, error: OSError) -> None:
        if self.on_failure is not None:
            self.on_failure(error)

    # Keeping house.

    def _batch_done(self, flight: list[QueueIndex]) -> None:
        chores = self._chores
        for queue in flight:
            if queue.removable:
                chores.dead.append(queue)
            if queue.doomed_segments:
                chores.funerals.append(queue)
        self._wake()

    def _mourn(self, queue: QueueIndex) -> None:
        """Its files are still there; another queue of its name must not have any before."""
        queue.is_deleted = True
        queue.blob = encode_queue(queue)
        self._zombies[queue] = None
        self._chores.funerals.append(queue)
        self._wake()

    def _has_chores(self) -> bool:
        chores = self._chores
        return bool(chores.dead or chores.funerals or self._is_checkpoint_due())

    def _is_checkpoint_due(self) -> bool:
        chores = self._chores
        due_bytes = max(chores.incompressible_bytes, self.journal_file_bytes // 2)
        is_long = self._batches.journal.total_bytes > due_bytes + self.journal_file_bytes // 2
        return is_long or chores.wants_checkpoint

    def _wake(self) -> None:
        chores = self._chores
        is_able = self._is_open and not chores.is_running and not chores.is_closing
        if is_able and self._has_chores():
            chores.is_running = True
            self._house = self._host.workers.spawn(self._keep_house())

    async def _keep_house(self) -> None:
        chores = self._chores
        try:
            while self._has_chores() and not chores.is_closing:
                try:
                    await self._do_chore()
                except OSError as error:
                    _log.error("vhost %r: %s; to be tried again", self.layout.vhost, error)
                    self._failed(error)
                    await self._host.workers.pause(RETRY_S)
        finally:
            chores.is_running = False

    async def _do_chore(self) -> None:
        chores = self._chores
        if chores.dead:
            await self._remove_dead()
        elif chores.funerals:
            queue = chores.funerals[0]
            await self._funerals.hold(queue)
            chores.funerals.remove(queue)
            self._zombies.pop(queue, None)
        else:
            chores.wants_checkpoint = False
            await self._shorten_journal()

    async def _remove_dead(self) -> None:
        queues, self._chores.dead = self._chores.dead, []
        paths = []
        for queue in queues:
            segments, queue.removable = queue.removable, []
            for segment in segments:
                if not segment.live and queue.segments.get(segment.number) is segment:
                    del queue.segments[segment.number]
                    paths.append(self.layout.segment_file(queue.name, segment.number))

        def remove() -> None:
            for path in paths:
                with suppress(FileNotFoundError):
                    self._host.disk.unlink(path)

        await self._host.workers.run_in_thread(remove)

    async def _shorten_journal(self) -> None:
        await self._scatter.roll()
        haunted = {queue.name for queue in self._zombies}
        touched = [q for q in self._batches.touched if q.name not in haunted]
        for queue in touched:
            del self._batches.touched[queue]
        try:
            await self._scatter.scatter(touched)
        except OSError:
            self._batches.touched.update(dict.fromkeys(touched))
            raise
        await self._checkpoint(is_clean=False)
        self._chores.incompressible_bytes = self._batches.journal.total_bytes

    async def _checkpoint(self, *, is_clean: bool) -> None:
        journal = self._batches.journal
        queues = [*self.queues.values(), *self._zombies]
        oldest = min([q.needs_journal_from for q in queues], default=journal.number)
        journal_from = min(oldest, journal.number)
        await self._scatter.checkpoint(queues, self._next_queue_id, journal_from, is_clean)
        await self._host.workers.run_in_thread(partial(journal.drop_before, journal_from))


def _recovered(queue: QueueIndex) -> RecoveredQueue:
    segments = []
    for number in sorted(queue.segments):
        segment = queue.segments[number]
        count = segment.readable.bit_count()
        if count:
            end = segment.base + SEGMENT_ENTRIES
            segments.append(RecoveredSegment(segment.base, end, count, segment.body_bytes))
    return RecoveredQueue(queue.name, queue.next_sequence, segments, list(queue.journaled))
