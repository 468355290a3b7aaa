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

import logging
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from warren.storage.batches import Batches
from warren.storage.checkpoint import Checkpoint, encode_queue
from warren.storage.disk import replace_file
from warren.storage.index_host import IndexHost
from warren.storage.layout import IndexLayout
from warren.storage.segment_writing import Step

if TYPE_CHECKING:
    from warren.storage.queue_index import QueueIndex

_log = logging.getLogger("warren.storage")


class Scatter:
    def __init__(self, host: IndexHost, layout: IndexLayout, batches: Batches, salt: int) -> None:
        self._host = host
        self._layout = layout
        self._batches = batches
        self._salt = salt
        self.checkpoints = 0
        self.entries_copied = 0

    async def roll(self) -> None:
        """Go on with a fresh journal file."""
        journal = self._batches.journal
        number = journal.new_number()
        descriptor = await self._host.workers.run_in_thread(partial(journal.create, number))
        promise = self._host.new_promise()

        def take_over() -> None:
            journal.begin_if_newer(number, descriptor)
            promise.set_result(None)

        self._batches.at_boundary(take_over)
        await promise

    async def scatter(self, queues: Iterable[QueueIndex]) -> None:
        """Have everything of these that is journaled in segments, and their blobs made."""
        step = self._new_step()
        begun: list[QueueIndex] = []
        try:
            for queue in queues:
                if queue.is_deleted:
                    continue
                self._begin(queue)
                begun.append(queue)
                position = 0
                while position < len(queue.scattering):
                    position = step.add_entries(queue, position)
                    step = await self._next(step)
                for segment in list(queue.acked_segments.values()):
                    if segment.unwritten_acks and segment.live and segment.has_file:
                        step.add_acks(queue, segment)
                        step = await self._next(step)
            await self._perform(step)
        except OSError:
            for queue in begun:
                self._give_up(queue)
            raise
        for queue in begun:
            self._finish(queue)

    def _begin(self, queue: QueueIndex) -> None:
        queue.begin_scattering()
        if not queue.is_ordered:
            queue.scattering.sort(key=attrgetter("sequence"))

    def _finish(self, queue: QueueIndex) -> None:
        self.entries_copied += len(queue.scattering)
        queue.scattering = []
        queue.note_segmented()
        queue.close_run()
        queue.acked_segments = {n: s for n, s in queue.acked_segments.items() if s.unwritten_acks}
        queue.blob = encode_queue(queue)
        if queue.on_segmented is not None:
            queue.on_segmented()

    def _give_up(self, queue: QueueIndex) -> None:
        """What did not get to a segment is where it was."""
        queue.take_back_scattering()

    def _new_step(self) -> Step:
        return Step(self._layout, self._salt)

    async def _next(self, step: Step) -> Step:
        if not step.is_full:
            return step
        await self._perform(step)
        return self._new_step()

    async def _perform(self, step: Step) -> None:
        if not step.writes:
            return
        try:
            await self._host.workers.run_in_thread(partial(step.perform, self._host.disk))
        except OSError:
            for write in step.writes:
                write.undo()
            raise
        for write in step.writes:
            write.finish()

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
