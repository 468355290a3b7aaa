"""The index of a virtual host: which messages its durable queues have, safe on disk.

IndexStore ── Batches ── Journal            what is new, made safe by one commit for all queues
    │  └───── Chores ─── Scatter, segments  what stays longer, queue by queue; checkpoints
    │  └───── SegmentReading                bringing it back
    └─ QueueIndex, one per queue            publish, ack
    └─ Recovery                             at the start
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from warren.model.logs import EventLog
from warren.storage.disk.files import replace_file
from warren.storage.disk.layout import IndexLayout, encode_name
from warren.storage.index.adoption import (
    RecoveredQueue,
    adopt,
    adopt_deleted,
    describe,
    is_interleaved,
    merge_runs,
)
from warren.storage.index.batches import Batches
from warren.storage.index.checkpoint import encode_queue
from warren.storage.index.index_host import Bodies, IndexHost
from warren.storage.index.index_records import RecordBuffer
from warren.storage.index.journal import JOURNAL_FILE_BYTES, Journal
from warren.storage.index.maintenance import IndexMaintenance
from warren.storage.index.queue_index import QueueIndex
from warren.storage.index.queue_register import QueueRegister
from warren.storage.index.recovering import Findings
from warren.storage.index.recovery import Recovery
from warren.storage.index.segment_reading import SegmentReading
from warren.storage.index.segment_removal import discard, sweep
from warren.wire.codec import Message, QueuedMessage

__all__ = ["IndexStore", "RecoveredQueue"]

JOURNAL_FILES_MAX: Final = 8
"""Every start begins another; so many are gone through again, but not more."""

PROBLEMS_SHOWN: Final = 50

_SALT_BITS: Final = 32

_log = EventLog("storage")


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
        self._host = host
        self._stores = (bodies, transient_bodies)
        self._register = QueueRegister()
        self._journal: Journal | None = None
        self.messages_read = 0

    # Start and end.

    async def open(self) -> list[RecoveredQueue]:
        """Raises NewerFormat and FilesMissing, before anything is changed, and OSError."""
        _log.debug("recovery started", vhost=self.layout.vhost)
        recovery = await self._recover()
        self._report()
        salt = self._host.random_bits(_SALT_BITS) if recovery.salt is None else recovery.salt
        await self._begin(recovery, salt)
        if recovery.checkpoint is not None and not self.findings.is_clean:
            states = [q.state for q in (*recovery.queues.values(), *recovery.deleted)]
            await self._host.workers.run_in_thread(
                partial(sweep, self.layout, self._host.disk, states)
            )
        self._register.next_id = recovery.next_queue_id
        used_from = {r.state.queue_id: r.used_from for r in recovery.queues.values()}
        self._adopt(recovery)
        is_dirty = not self.findings.is_clean and not recovery.is_new
        if is_dirty or len(recovery.journal_sizes) > JOURNAL_FILES_MAX:
            self._chores.want_checkpoint()
        await self._chores.begin([q for q in self.queues.values() if is_interleaved(q)])
        if self.findings.lost_bodies:
            await self._batches.flush()  # that they are written off, before files go
        for store in self._stores:
            store.begin_chores()
        _log.debug("recovery finished", vhost=self.layout.vhost)
        used = {r.state.queue_id: r.state.next_sequence for r in recovery.queues.values()}
        queues = self.queues.values()
        return [describe(q, used_from[q.queue_id], used[q.queue_id]) for q in queues]

    def _adopt(self, recovery: Recovery) -> None:
        is_clean = self.findings.is_clean
        journal_from = min(recovery.journal_sizes, default=0)
        for recovering in recovery.queues.values():
            queue = self._make(recovering.state.queue_id, recovering.state.name)
            adopt(queue, recovering, is_clean=is_clean, journal_from=journal_from)
            self._batches.touched[queue] = None
            self._chores.look_at(queue)
        for recovering in recovery.deleted:
            queue = QueueIndex(self._batches, recovering.state.queue_id, recovering.state.name)
            adopt_deleted(queue, recovering)
            self._chores.queue_deleted(queue)

    async def _recover(self) -> Recovery:
        host = self._host
        bodies, transient_bodies = self._stores
        recovery = Recovery(self.layout, host.disk)
        self.findings = recovery.findings
        await host.workers.run_in_thread(recovery.load)
        checkpoint = recovery.checkpoint
        self.findings.phase = "message store"
        await bodies.open(None if checkpoint is None else checkpoint.store_state)
        await transient_bodies.open(None)
        await host.workers.run_in_thread(partial(recovery.replay, bodies))
        missing = await bodies.missing_files()
        await host.workers.run_in_thread(partial(recovery.check_files, missing))
        await bodies.recovered()
        await transient_bodies.recovered()
        return recovery

    async def _begin(self, recovery: Recovery, salt: int) -> None:
        host = self._host
        journal = self._journal = Journal(self.layout, host.disk, salt)
        for number, size in recovery.journal_sizes.items():
            journal.keep(number, size)
        if recovery.journal_sizes:
            newest = max(recovery.journal_sizes)
            journal.resume_after(newest, recovery.journal_sizes[newest])
        self._batches = Batches(host, journal, RecordBuffer(salt), self._stores)
        self._batches.embed_below = self.embed_below
        self._batches.on_failure = self._failed
        self._chores = IndexMaintenance(host, self.layout, self._batches, self._register, salt)
        self._chores.journal_file_bytes = self.journal_file_bytes
        self._chores.on_failure = self._failed
        self._batches.on_done = self._chores.batch_done
        self._reading = SegmentReading(host, self.layout, salt)
        number = journal.new_number()

        def create() -> int:
            descriptor = journal.create(number)
            try:
                self._sign()
            except OSError:
                host.disk.close(descriptor)
                raise
            return descriptor

        journal.begin(number, await host.workers.run_in_thread(create))

    def _sign(self) -> None:
        """Write down whose files these are, when there is a journal (completeness.py)."""
        path, disk = self.layout.vhost_file, self._host.disk
        if path.name not in disk.list(path.parent):
            replace_file(disk, path, [encode_name(self.layout.vhost)])

    def _report(self) -> None:
        findings = self.findings
        for problem in findings.problems[:PROBLEMS_SHOWN]:
            _log.error("queue index damaged", vhost=self.layout.vhost, problem=problem)
        more = len(findings.problems) - PROBLEMS_SHOWN
        if more > 0:
            _log.error("queue index damaged in more places", vhost=self.layout.vhost, places=more)
        if findings.checkpoint_problem:
            _log.warning(
                "checkpoint not used: all segments were read",
                vhost=self.layout.vhost, reason=findings.checkpoint_problem,
                segments=findings.segments_read,
            )  # fmt: skip

    async def close(self, delivered: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> None:
        """Write down what is needed to go on; `delivered` are runs (first, count) per queue."""
        self._batches.stop_retrying()
        self._reading.stop()
        await self._chores.stop()
        try:
            await self._close_cleanly(delivered or {})
        except OSError as error:
            _log.error(
                "no clean stop: the next start will recover", vhost=self.layout.vhost, error=error
            )
        await self._batches.seal()
        await self._host.workers.run_in_thread(self._batches.journal.close)

    async def abandon(self) -> None:
        """It could not be opened: let go of what was."""
        if self._journal is not None:
            await self._host.workers.run_in_thread(self._journal.close)

    async def _close_cleanly(self, delivered: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        await self._batches.close()
        for name, queue in self.queues.items():
            queue.close_run()
            queue.delivered = merge_runs(queue, list(delivered.get(name, ())))
            queue.blob = encode_queue(queue)
        await self._chores.checkpoint(is_clean=True)

    # Queues.

    @property
    def queues(self) -> dict[str, QueueIndex]:
        return self._register.alive

    def queue(self, name: str) -> QueueIndex:
        return self.queues.get(name) or self._make(self._register.new_id(), name)

    async def delete_queue(self, name: str) -> None:
        """Forget the queue and all it has; returns when that would survive a power cut."""
        self.drop_queue(name)
        await self._batches.deletions_safe()

    def drop_queue(self, name: str) -> None:
        """Forget the queue now, so that another one may have its name."""
        queue = self.queues.pop(name, None)
        if queue is not None:
            discard(queue)
            self._batches.delete(queue.queue_id)
            self._reading.forget(queue.queue_id)
            self._chores.queue_deleted(queue)

    async def deletions_safe(self) -> None:
        """Return when no queue that was dropped until now could come back."""
        await self._batches.deletions_safe()

    def read(
        self,
        queue: QueueIndex,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        """Messages that are in segments, the first of `span`, in order; at least one if any is."""

        async def read() -> None:
            entries = await self._reading.read(queue, *span, bytes_max)
            if entries is not None:
                # Those without a body are counted when that is read, too.
                self.count_read(queue, sum(entry.message is not None for entry in entries))
                done(entries)

        self._host.workers.spawn(read())

    def count_read(self, queue: QueueIndex, count: int) -> None:
        """Count messages that have come back to memory from the disk."""
        self.messages_read += count
        queue.messages_read += count

    async def read_alive(
        self, queue: QueueIndex, span: tuple[int, int], bytes_max: int
    ) -> list[QueuedMessage]:
        """As `read`, for whoever can wait."""
        return await self._reading.read(queue, *span, bytes_max) or []

    async def read_messages(
        self, queue: QueueIndex, places: list[QueuedMessage]
    ) -> dict[int, Message] | None:
        """Messages whose bodies are in segments (`SegmentReading.read_messages`)."""
        return await self._reading.read_messages(queue, places)

    async def flush(self) -> None:
        """Return when all that was asked for until now is safe."""
        await self._batches.flush()

    def want_checkpoint(self) -> None:
        """Have everything that is journaled in segments, soon."""
        self._chores.want_checkpoint()

    def scatter_soon(self) -> bool:
        """The same, because memory is short: what is in segments may leave it.

        To be asked for as often as one likes. False: the journal has too little to be worth it,
        or hardly more than a checkpoint would write.
        """
        return self._chores.scatter_soon()

    @property
    def is_failing(self) -> bool:
        """The disk takes nothing at the moment; publishers are told no."""
        return self._batches.is_failing

    @property
    def is_doubtful(self) -> bool:
        """Since the disk last refused something, it has taken nothing."""
        return self._batches.is_doubtful

    @property
    def messages_written(self) -> int:
        return self._batches.messages_written

    @property
    def commits(self) -> int:
        """Batches written and synced, journal and message stores together."""
        return self._batches.count

    @property
    def bytes_written(self) -> int:
        """To the journal."""
        return self._batches.bytes_written

    @property
    def journal_bytes(self) -> int:
        return self._batches.journal.total_bytes

    def _make(self, queue_id: int, name: str) -> QueueIndex:
        queue = QueueIndex(self._batches, queue_id, name)
        queue.reader = self
        self.queues[name] = queue
        return queue

    def _failed(self, error: OSError) -> None:
        if self.on_failure is not None:
            self.on_failure(error)
