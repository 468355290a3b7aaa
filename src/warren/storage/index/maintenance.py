"""What an index does beside its work, one thing after another, in the background.

    1. files of segments that are dead are deleted
    2. the message stores are told of what was purged, and files of deleted queues are deleted
    3. when the journal is long enough, it is scattered to segments (scatter.py)

The order matters: a queue may have the name of one that was deleted, and so the same directory. It
gets files of its own only when those of the other are gone.

What fails is reported and tried again. Nobody waits for chores, but the journal grows meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from warren.model.logs import EventLog
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.batches import Batches
from warren.storage.index.checkpoint import encode_queue
from warren.storage.index.index_host import IndexHost
from warren.storage.index.journal import JOURNAL_FILE_BYTES
from warren.storage.index.queue_register import QueueRegister
from warren.storage.index.scatter import Scatter, needed_from
from warren.storage.index.segment_removal import SegmentRemover

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex

RETRY_S: Final = 1.0

SOON_BYTES_MIN: Final = 1_048_576
"""The journal is not scattered before its time for less than this."""

_log = EventLog("storage")


class IndexMaintenance:
    def __init__(
        self,
        host: IndexHost,
        layout: IndexLayout,
        batches: Batches,
        register: QueueRegister,
        salt: int,
    ) -> None:
        self.journal_file_bytes = JOURNAL_FILE_BYTES
        self.on_failure: Callable[[OSError], None] = lambda error: None
        self.scatter: Final = Scatter(host, layout, batches, salt)
        self._host = host
        self._layout = layout
        self._batches = batches
        self._register = register
        self._funerals = SegmentRemover(host, layout, batches, salt)
        self._dead: list[QueueIndex] = []
        self._mourned: list[QueueIndex] = []
        self._wants_checkpoint = False
        # Of the journal, what the last attempt to shorten it could not do without.
        self._needed_bytes = 0
        # What journal files before this one say of segments, the segments say themselves.
        self._scattered_to = batches.journal.oldest
        self._work: Awaitable[None] | None = None
        self._is_running = False
        self._is_stopped = True

    # What there is to do.

    async def begin(self, interleaved: list[QueueIndex]) -> None:
        """`interleaved` are queues that can only be used once they are copied."""
        if interleaved:
            while self._dead or self._mourned:
                await self._do_one()
            await self.scatter.scatter(interleaved)
        self._is_stopped = False
        self._wake()

    async def stop(self) -> None:
        """Return when nothing is under way; nothing more is begun."""
        self._is_stopped = True
        if self._work is not None:
            await self._work

    def batch_done(self, flight: list[QueueIndex]) -> None:
        for queue in flight:
            self.look_at(queue)
        self._wake()

    def look_at(self, queue: QueueIndex) -> None:
        """A queue may have segments that are dead, or doomed."""
        if queue.removable:
            self._dead.append(queue)
        if queue.segments_to_purge:
            self._mourned.append(queue)

    def queue_deleted(self, queue: QueueIndex) -> None:
        """A queue was deleted."""
        queue.is_deleted = True
        queue.blob = encode_queue(queue)
        self._register.deleted[queue] = None
        self._mourned.append(queue)
        self._wake()

    def want_checkpoint(self) -> None:
        self._wants_checkpoint = True
        self._wake()

    def scatter_soon(self) -> bool:
        length = self._batches.journal.total_bytes - self._needed_bytes
        is_worth_it = length > max(SOON_BYTES_MIN, self.scatter.checkpoint_bytes)
        if is_worth_it:
            self.want_checkpoint()
        return is_worth_it

    def _has_work(self) -> bool:
        return bool(self._dead or self._mourned or self._is_checkpoint_due())

    def _is_checkpoint_due(self) -> bool:
        length = self._batches.journal.total_bytes - self._needed_bytes
        return length > self.journal_file_bytes or self._wants_checkpoint

    # Doing it.

    def _wake(self) -> None:
        if not self._is_running and not self._is_stopped and self._has_work():
            self._is_running = True
            self._work = self._host.workers.spawn(self._do_all())

    async def _do_all(self) -> None:
        try:
            while self._has_work() and not self._is_stopped:
                try:
                    await self._do_one()
                except OSError as error:
                    _log.error(
                        "maintenance of the queue index failed, will be retried",
                        vhost=self._layout.vhost, error=error, retry_s=RETRY_S,
                    )  # fmt: skip
                    self.on_failure(error)
                    await self._host.workers.pause(RETRY_S)
        finally:
            self._is_running = False

    async def _do_one(self) -> None:
        if self._dead:
            await self._remove_dead()
        elif self._mourned:
            await self._bury_next()
        else:
            await self._shorten_journal()

    async def _bury_next(self) -> None:
        queue = self._mourned[0]
        await self._funerals.hold(queue)
        self._mourned.remove(queue)
        self._register.deleted.pop(queue, None)

    async def _remove_dead(self) -> None:
        queues, self._dead = self._dead, []
        paths = []
        for queue in queues:
            segments, queue.removable = queue.removable, []
            for segment in segments:
                if not segment.live and queue.segments.get(segment.number) is segment:
                    del queue.segments[segment.number]
                    paths.append(self._layout.segment_file(queue.name, segment.number))

        def remove() -> None:
            for path in paths:
                with suppress(FileNotFoundError):
                    self._host.disk.unlink(path)

        await self._host.workers.run_in_thread(remove)

    async def _shorten_journal(self) -> None:
        self._wants_checkpoint = False
        vhost = self._layout.vhost
        _log.debug("checkpoint started", vhost=vhost)
        try:
            await self._scatter_and_checkpoint()
        except OSError:
            self._wants_checkpoint = True
            raise
        self._needed_bytes = self._batches.journal.total_bytes - self._batches.journal.size
        _log.debug("checkpoint finished", vhost=vhost)

    async def _scatter_and_checkpoint(self) -> None:
        number = await self.scatter.roll()
        await self._remove_dead()
        for _ in range(len(self._mourned)):
            await self._bury_next()
        touched = [q for q in self._batches.touched if q.is_deleted or self._register.is_free(q)]
        for queue in touched:
            del self._batches.touched[queue]
        try:
            await self.scatter.scatter(touched)
        except OSError:
            self._batches.touched.update(dict.fromkeys(touched))
            raise
        self._scattered_to = number
        await self.checkpoint(is_clean=False)

    async def checkpoint(self, *, is_clean: bool) -> None:
        """Write down what every queue was last known to have; then journal files can go.

        Not at a stop, however clean, those that were not scattered: with them the segments tell
        the truth without a checkpoint, too.
        """
        journal = self._batches.journal
        queues = self._register.all()
        oldest = min(map(needed_from, queues), default=self._scattered_to)
        journal_from = min(oldest, self._scattered_to)
        await self.scatter.checkpoint(queues, self._register.next_id, journal_from, is_clean)
        await self._host.workers.run_in_thread(partial(journal.drop_before, journal_from))
