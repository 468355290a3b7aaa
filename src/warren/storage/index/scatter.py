"""From the journal to segments, and then a checkpoint: how the journal stays short.

    1. a fresh journal file is made, and takes over between two batches
    2. queue by queue, in steps: what is journaled and still alive is appended to the queue's
       segments, and acknowledgements of what was there before; each step is synced
    3. the message store's state is fixed, for some position of the journal
    4. a checkpoint of all that takes the place of the one before
    5. the old journal files are deleted

Meanwhile publishing goes on, into the fresh file. Most messages are gone before their journal file
is full; those are never copied. What is copied is written twice in all, however long it stays.

**Nothing alive is ever in a deleted file only.** Whatever is in an old file was JOURNALED when the
fresh one took over, because that happens between two batches; step 2 takes everything JOURNALED;
and if it fails anywhere the old files stay, for the next round. A power cut before 4 leaves the old
checkpoint, which knows neither the new entries (segments are cut to the length it knows) nor the
fresh file's name (which follows by counting), and the old journal files, which have everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from warren.storage.disk.files import replace_file
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.batches import Batches
from warren.storage.index.checkpoint import Checkpoint, encode_queue
from warren.storage.index.index_host import IndexHost
from warren.storage.index.segment_entry import in_state
from warren.storage.index.segment_writing import SegmentFiles, SegmentWrite, Step
from warren.storage.index.states import JOURNALED

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex

SYNC_BYTES: Final = 8 * 1_048_576
SYNC_FILES_MAX: Final = 256
"""How much is appended, to how many files, before they are synced."""

SYNC_THREADS: Final = 3

NOT_NEEDED: Final = 1 << 62


class Scatter:
    def __init__(self, host: IndexHost, layout: IndexLayout, batches: Batches, salt: int) -> None:
        self._host = host
        self._layout = layout
        self._batches = batches
        self._salt = salt
        self.checkpoints = 0
        self.checkpoint_bytes = 0  # of the last one
        self.entries_copied = 0

    async def roll(self) -> int:
        """Go on with a fresh journal file; what is safe by then is in files before it."""
        journal = self._batches.journal
        number = journal.new_number()
        descriptor = await self._host.workers.run_in_thread(partial(journal.create, number))
        promise = self._host.new_promise()

        def take_over() -> None:
            journal.begin_if_newer(number, descriptor)
            promise.set_result(None)

        self._batches.at_boundary(take_over)
        await promise
        return number

    async def scatter(self, queues: Iterable[QueueIndex]) -> None:
        """Have everything of these that is journaled in segments, and their blobs made.

        Raises OSError; what did not get to a segment is journaled still.
        """
        copying = Copying(self._host, self._layout, self._salt)
        try:
            for queue in queues:
                if not queue.is_deleted:
                    await copying.copy(queue)
            await copying.finish()
        except OSError:
            await copying.undo()
            raise
        self.entries_copied += copying.entries_copied

    async def checkpoint(
        self, queues: Iterable[QueueIndex], next_queue_id: int, journal_from: int, is_clean: bool
    ) -> None:
        position, state = await self._batches.take_snapshot()
        blobs = [queue.blob for queue in queues if queue.blob]
        checkpoint = Checkpoint(
            self._salt, is_clean, next_queue_id, journal_from, position, state, blobs
        )
        path = self._layout.checkpoint_file
        await self._host.workers.run_in_thread(
            lambda: replace_file(self._host.disk, path, checkpoint.pieces())
        )
        self.checkpoints += 1
        self.checkpoint_bytes = len(state) + sum(map(len, blobs))


class Copying:
    """One round of copying."""

    def __init__(self, host: IndexHost, layout: IndexLayout, salt: int) -> None:
        self._host = host
        self._layout = layout
        self._salt = salt
        self._files = SegmentFiles(host.disk, salt)
        self._step = Step(layout, salt)
        self._unsynced: list[SegmentWrite] = []
        self._unsynced_bytes = 0
        self._begun: list[QueueIndex] = []
        self.entries_copied = 0

    async def copy(self, queue: QueueIndex) -> None:
        self._begun.append(queue)
        _begin(queue)
        position = 0
        while position < len(queue.scattering):
            position = self._step.add_entries(queue, position)
            await self._go_on()
        for number, segment in list(queue.acked_segments.items()):
            # Of dead ones, too: their files are deleted later, or not, if the node stops.
            has_file = segment.has_file and queue.segments.get(number) is segment
            if has_file and segment.unwritten_acks:
                self._step.add_acks(queue, segment)
                await self._go_on()

    async def finish(self) -> None:
        """All that was begun is in segments then."""
        await self._append()
        await self._sync()
        begun, self._begun = self._begun, []
        for queue in begun:
            self.entries_copied += len(queue.scattering)
            _finish(queue)

    async def _sync_files(self) -> None:
        run = self._host.workers.run_in_thread
        errors: list[OSError] = []
        for part in [run(sync) for sync in self._files.syncs(SYNC_THREADS)]:
            try:
                await part
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        await run(self._files.close)

    async def undo(self) -> None:
        await self._host.workers.run_in_thread(self._files.close)
        for write in (*self._unsynced, *self._step.writes):
            write.undo()
        for queue in self._begun:
            _take_back(queue)

    async def _go_on(self) -> None:
        if not self._step.is_full:
            return
        await self._append()
        if self._unsynced_bytes >= SYNC_BYTES or len(self._files) >= SYNC_FILES_MAX:
            await self._sync()

    async def _append(self) -> None:
        step, self._step = self._step, Step(self._layout, self._salt)
        self._unsynced.extend(step.writes)
        self._unsynced_bytes += step.size
        await self._host.workers.run_in_thread(partial(self._files.append, step.writes))

    async def _sync(self) -> None:
        await self._sync_files()
        unsynced, self._unsynced = self._unsynced, []
        self._unsynced_bytes = 0
        for write in unsynced:
            write.finish()
        for queue in dict.fromkeys(write.queue for write in unsynced):
            if queue.on_segmented is not None and not queue.is_deleted:
                queue.on_segmented()


def _begin(queue: QueueIndex) -> None:
    assert not queue.scattering, "a queue is scattered once at a time"
    queue.close_run()
    queue.scattering, queue.journaled = queue.journaled, []
    queue.scattering_from = queue.journaled_from
    queue.journaled_dead = 0
    if not queue.is_ordered:
        queue.scattering.sort(key=attrgetter("sequence"))


def _finish(queue: QueueIndex) -> None:
    queue.scattering = []
    queue.close_run()
    queue.segmented_below = _first_unsegmented(queue)
    queue.acked_segments = {n: s for n, s in queue.acked_segments.items() if s.unwritten_acks}
    queue.blob = encode_queue(queue)


def _first_unsegmented(queue: QueueIndex) -> int:
    lists = (queue.journaled, queue.writing, queue.gathered, queue.gathered_stored)
    if queue.is_ordered:
        first = [entries[0].sequence for entries in lists if entries]
    else:
        first = [queued.sequence for entries in lists for queued in entries]
    return min(first, default=queue.next_sequence)


def _take_back(queue: QueueIndex) -> None:
    kept = in_state(queue.scattering, JOURNALED)
    queue.scattering = []
    if kept:
        queue.journaled = kept + queue.journaled
        queue.journaled_from = queue.scattering_from


def needed_from(queue: QueueIndex) -> int:
    """The oldest journal file with something of this queue that is nowhere else."""
    if queue.is_deleted:
        return NOT_NEEDED
    if queue.scattering:
        return queue.scattering_from
    return queue.journaled_from if queue.journaled else NOT_NEEDED
