"""Gathers what queues want written into batches, one after another.

    queue.publish -> mark -> (end of the turn) -> start: encode, submit
                                                     |  committer: write, sync
    next batch, with all that came meanwhile  <-  done: confirm

**Acknowledgements wait** for the next message that comes, or for a while: nobody is told when they
are safe, and a batch of their own would cost as much as one with a message.

**A confirm** is given in `done` and nowhere else, but for messages that are acknowledged before
they were even encoded.

**When a batch fails** nothing of it is safe, though all of it may be in the file. That file is left
(journal.py) and everything is encoded anew for a fresh one. If that fails, too, the publishers of
everything that waits are told no, and it is tried again from time to time: what queues hold in
memory stays theirs to deliver, and consumers go on.

**The end** is `seal`: queues live a little longer than their journal, and messages may expire then;
what comes after it is not written, and the next start finds what was true before.

**Followers** are encoded last, when what did not go into the batch has filled it: so the ids that a
queue remembers (queues/id_keeping.py) are never safe before the messages they came with.

**Snapshots.** A message store's state must be true for one position of the journal. It counts a
death as soon as an ack is given to it, and acks are never left over by `encode`: right after a
batch was encoded all that was counted is before the end of that batch.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from warren.model.logs import EventLog
from warren.queues.id_keeping import IDS_LEVEL
from warren.storage.disk.committer import Batch
from warren.storage.disk.layout import encode_name
from warren.storage.index.index_host import Bodies, IndexHost, Promise
from warren.storage.index.index_records import RecordBuffer
from warren.storage.index.journal import Journal, position_in

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex

BATCH_BYTES: Final = 4 * 1_048_576
"""Embedded messages beyond this wait for the next batch."""

RETRY_S: Final = 1.0

ACKS_WAIT_S: Final = 0.025
"""So much longer than without it, messages may come back that were acknowledged before a crash."""

_IDS: Final = f"\0{IDS_LEVEL}"
"""How the name ends of what a queue's ids are kept in."""

_log = EventLog("storage")


@dataclass(slots=True)
class Snapshot:
    """The message store's state as of a position in the journal, once that is safe."""

    promise: Promise
    position: int = 0
    state: bytes = b""


class Batches:
    def __init__(
        self, host: IndexHost, journal: Journal, buffer: RecordBuffer, stores: tuple[Bodies, Bodies]
    ) -> None:
        self.embed_below = 4_096
        self.credit = host.credit
        self.journal_credit = host.journal_credit
        self.store_credit = host.store_credit
        self.bodies, self.transient_bodies = stores
        self.journal = journal
        self.on_done: Callable[[list[QueueIndex]], None] | None = None
        self.on_failure: Callable[[OSError], None] | None = None
        self.count = 0
        self.failures = 0
        self.bytes_written = 0
        self.messages_written = 0
        # The journal has something of these that the last checkpoint does not know.
        self.touched: dict[QueueIndex, None] = {}
        self._host = host
        self._buffer = buffer
        self._view: memoryview | None = None
        self._dirty: list[QueueIndex] = []
        self._has_followers = False
        self._deleted: list[int] = []
        self._flight: list[QueueIndex] | None = None
        self._flight_deleted: list[int] = []
        self._is_scheduled = False
        # Whether somebody waits for the next batch; and whether, if nobody does, its time is set.
        self._is_urgent = False
        self._is_timed = False
        self._is_failing = False
        self._failed_in_a_row = 0
        self._waiters: list[Promise] = []
        self._flight_waiters: list[Promise] = []
        # Those who wait for deletions alone, and as long as the disk takes anything.
        self._mourners: list[Promise] = []
        self._flight_mourners: list[Promise] = []
        self._at_boundary: list[Callable[[], None]] = []
        self._snapshot: Snapshot | None = None
        self._flight_snapshot: Snapshot | None = None
        self._mover: Awaitable[None] | None = None
        self._is_closing = False
        self._is_sealed = False
        self._taken_from: list[Bodies] = []

    @property
    def is_in_flight(self) -> bool:
        return self._flight is not None

    @property
    def is_failing(self) -> bool:
        """The disk takes nothing at the moment; publishers are told no."""
        return self._is_failing

    @property
    def is_doubtful(self) -> bool:
        """Since the disk last refused something, it has taken nothing."""
        return self._failed_in_a_row > 0

    def mark(self, queue: QueueIndex) -> None:
        if queue.is_patient:
            self.mark_lazily(queue)
            return
        self._dirty.append(queue)
        self._has_followers = self._has_followers or _is_follower(queue)
        self.hurry()

    def mark_lazily(self, queue: QueueIndex) -> None:
        self._dirty.append(queue)
        self._has_followers = self._has_followers or _is_follower(queue)
        if self._is_timed or self._is_urgent:
            return
        if self._host.call_later is None:
            self.hurry()
        else:
            self._is_timed = True
            self._host.call_later(ACKS_WAIT_S, self._waited)

    def _waited(self) -> None:
        self._is_timed = False
        if self._dirty:
            self.hurry()

    def hurry(self) -> None:
        self._is_urgent = True
        self._schedule()

    def delete(self, queue_id: int) -> None:
        """Have it recorded that a queue is no more."""
        self._deleted.append(queue_id)
        self.hurry()

    async def flush(self) -> None:
        """Return when all that was asked for until now is safe; raises OSError after the end."""
        if self._is_sealed:
            raise OSError(errno.ESHUTDOWN, "the journal is closed")
        if self._dirty or self._deleted:
            promise = self._host.new_promise()
            self._waiters.append(promise)
            self.hurry()
            await promise
        elif self._flight is not None:
            promise = self._host.new_promise()
            self._flight_waiters.append(promise)
            await promise

    async def deletions_safe(self) -> None:
        """Return when a power cut brings back no queue that was deleted until now.

        Or when the disk takes nothing: to delete is what one does then, and nobody waits for that.
        """
        is_on_its_way = bool(self._deleted or self._flight_deleted)
        if is_on_its_way and not self._is_failing and not self._is_sealed:
            promise = self._host.new_promise()
            (self._mourners if self._deleted else self._flight_mourners).append(promise)
            await promise

    def at_boundary(self, callback: Callable[[], None]) -> None:
        """Call it when no batch is under way, now or before the next."""
        if self._flight is None:
            callback()
        else:
            self._at_boundary.append(callback)

    async def take_snapshot(self) -> tuple[int, bytes]:
        """The message store's state, and the position in the journal it is true for."""
        assert self._snapshot is None, "one checkpoint at a time"
        snapshot = self._snapshot = Snapshot(self._host.new_promise())
        self.hurry()
        await snapshot.promise
        return snapshot.position, snapshot.state

    def stop_retrying(self) -> None:
        """A disk that fails now may keep a stop from ever ending."""
        self._is_closing = True

    async def close(self) -> None:
        """Have everything written, if the disk lets us; raises OSError if not."""
        self.stop_retrying()
        if self._mover is not None:
            await self._mover
        if self._is_failing:
            raise OSError(errno.EIO, "the journal cannot be written to")
        await self.flush()

    async def seal(self) -> None:
        """Begin no batch any more; the files may be closed when this returns."""
        self._is_sealed = True
        if self._flight is not None:
            landed = self._host.new_promise()
            self._at_boundary.append(partial(landed.set_result, None))
            await landed
        if self._mover is not None:
            await self._mover
        self._give_up()

    def _is_held(self) -> bool:
        """Nothing may be submitted now."""
        return self._flight is not None or self._is_failing or self._is_sealed

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_held():
            self._is_scheduled = True
            self._host.call_soon(self._start)

    def _start(self) -> None:
        self._is_scheduled = False
        if self._is_held():
            return
        if not self._dirty and not self._deleted and self._snapshot is None:
            self._is_urgent = False
            self._resolve(self._take_waiters())
            return
        try:
            batch = self._fill()
        except OSError as error:  # a message store has no file to write to
            self._fail(error)
            return
        self._host.committer.submit(batch, self._done)

    def _fill(self) -> Batch:
        """Encode what is waiting; it is in flight now."""
        batch = Batch()
        for store in (self.bodies, self.transient_bodies):
            writes, syncs = store.take_writes()
            self._taken_from.append(store)
            batch.writes.extend(writes)
            batch.syncs.extend(syncs)
        buffer, journal = self._buffer, self.journal
        buffer.clear()
        journal.lead_in(buffer)
        dirty, self._dirty = self._dirty, []
        if self._has_followers:
            dirty.sort(key=_is_follower)
        for queue in dirty:
            if queue.named_in != journal.number:
                queue.named_in = journal.number
                buffer.queue_named(queue.queue_id, encode_name(queue.name))
            if not queue.encode(buffer, BATCH_BYTES):
                self._dirty.append(queue)
            if queue.is_deleted:
                buffer.queue_deleted(queue.queue_id)
        for queue_id in self._deleted:
            buffer.queue_deleted(queue_id)
        self._flight_deleted, self._deleted = self._deleted, []
        self._flight_mourners, self._mourners = self._mourners, []
        self._flight = dirty
        self._is_urgent = bool(self._dirty)
        if not self._dirty:
            self._flight_waiters, self._waiters = self._waiters, []
        self._fix_snapshot()
        self._view = buffer.view()
        batch.placed.append(journal.place(self._view))
        batch.syncs.append(journal.descriptor)
        return batch

    def _fix_snapshot(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        self._snapshot = None
        snapshot.position = position_in(self.journal.number, self.journal.size + self._buffer.size)
        snapshot.state = self.bodies.checkpoint_state()
        self._flight_snapshot = snapshot

    def _done(self, error: OSError | None) -> None:
        if self._view is not None:
            self._view.release()
            self._view = None
        if error is not None:
            self._fail(error)
            return
        self._failed_in_a_row = 0
        flight, self._flight = self._flight, None
        assert flight is not None, "a batch that is done was submitted"
        self.count += 1
        self.bytes_written += self._buffer.size
        self.journal.size += self._buffer.size
        self._flight_deleted = []
        mourners, self._flight_mourners = self._flight_mourners, []
        self._resolve(mourners)
        self._tell_stores(None)
        for queue in flight:
            count = len(queue.writing) + len(queue.lone.writing)
            self.messages_written += count
            queue.messages_written += count
            queue.written(self.journal.number)
            self.touched[queue] = None
        self._resolve(self._flight_waiters)
        self._flight_waiters = []
        if self._flight_snapshot is not None:
            self._resolve([self._flight_snapshot.promise])
            self._flight_snapshot = None
        self._cross_boundary()
        if self.on_done is not None:
            self.on_done(flight)
        if self._is_urgent or self._waiters:
            self._start()

    def _cross_boundary(self) -> None:
        callbacks, self._at_boundary = self._at_boundary, []
        for callback in callbacks:
            callback()

    # Failure.

    def _fail(self, error: OSError) -> None:
        """Take everything back, and see whether another file fares better."""
        self.failures += 1
        self._failed_in_a_row += 1
        self._is_failing = True
        self.journal.may_fill = False
        flight, self._flight = self._flight or [], None
        self._tell_stores(error)
        for queue in flight:
            queue.named_in = -1
            queue.unwritten()
        self._deleted = self._flight_deleted + self._deleted
        self._flight_deleted = []
        self._mourners = self._flight_mourners + self._mourners
        self._flight_mourners = []
        self._waiters = self._flight_waiters + self._waiters
        self._flight_waiters = []
        if self._flight_snapshot is not None:
            self._snapshot, self._flight_snapshot = self._flight_snapshot, None
        self._report(error)
        self._cross_boundary()
        self._mover = self._host.workers.spawn(self._move_on())

    def _tell_stores(self, error: OSError | None) -> None:
        taken_from, self._taken_from = self._taken_from, []
        for store in taken_from:
            store.batch_done(error)

    async def _move_on(self) -> None:
        """To a fresh file: at once after a first failure, later after more."""
        failed = (self.journal.number, self.journal.descriptor, self.journal.batch_end)
        while True:
            if self._failed_in_a_row > 1:
                for queue in self._dirty:
                    queue.refuse()
                self._dismiss_mourners()
                if self._is_closing or self._is_sealed:
                    self._give_up()
                    return
                await self._host.workers.pause(RETRY_S)
            number = self.journal.new_number()
            try:
                descriptor = await self._host.workers.run_in_thread(
                    partial(self.journal.create_after, failed, number)
                )
            except OSError as error:
                self._failed_in_a_row += 1
                self._report(error)
                continue
            self.journal.begin_if_newer(number, descriptor)
            self._is_failing = False
            self._start()
            return

    def _give_up(self) -> None:
        """Nobody will try again; those who wait must not wait for ever."""
        self._dismiss_mourners()
        waiting = self._take_waiters()
        if self._snapshot is not None:
            waiting.append(self._snapshot.promise)
            self._snapshot = None
        for promise in waiting:
            if not promise.done():
                promise.set_exception(OSError(errno.EIO, "the journal cannot be written to"))

    def _report(self, error: OSError) -> None:
        _log.error("journal cannot be written", error=error)
        if self.on_failure is not None:
            self.on_failure(error)

    def _dismiss_mourners(self) -> None:
        mourners, self._mourners = self._mourners, []
        self._resolve(mourners)

    def _take_waiters(self) -> list[Promise]:
        waiters, self._waiters = self._waiters, []
        return waiters

    def _resolve(self, promises: list[Promise]) -> None:
        for promise in promises:
            if not promise.done():
                promise.set_result(None)


def _is_follower(queue: QueueIndex) -> bool:
    return queue.name.endswith(_IDS)
