"""The end of segments that were not acknowledged message by message: purged, or of deleted queues.

Such messages are gone at once, but if a body is in a message store, the store has to be told, and
where it is stands only in the segment's file. So the file is read, each death is recorded in the
journal as any acknowledgement is, and when that is safe the file is deleted. A stop in between does
no harm: what is not recorded is still doomed after a start, and what is recorded is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warren.storage.disk.files import Disk
from warren.storage.disk.layout import SEGMENT_SUFFIX, IndexLayout, numbered
from warren.storage.index.batches import Batches
from warren.storage.index.checkpoint import QueueState
from warren.storage.index.index_format import FILE_HEADER_BYTES, PUBLISH, STORED
from warren.storage.index.index_host import IndexHost
from warren.storage.index.index_records import Record, scan
from warren.storage.index.segment import Segment, places_of
from warren.storage.index.segment_entry import discard_embedded
from warren.storage.index.states import GATHERED, TRANSIENT_FILE_MIN

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex


class SegmentRemover:
    def __init__(self, host: IndexHost, layout: IndexLayout, batches: Batches, salt: int) -> None:
        self._host = host
        self._layout = layout
        self._batches = batches
        self._salt = salt

    async def hold(self, queue: QueueIndex) -> None:
        """Tell the message stores; of a deleted queue, delete all files. Raises OSError."""
        doomed, queue.segments_to_purge = queue.segments_to_purge, []
        if queue.is_deleted:
            doomed = [segment for segment in queue.segments.values() if segment.stored]
            for segment in doomed:
                segment.doomed = segment.stored
        try:
            for segment in dict.fromkeys(doomed):
                await self._tell(queue, segment)
        except OSError:
            queue.segments_to_purge.extend(doomed)
            raise
        if queue.is_deleted:
            await self._batches.flush()
            await self._host.workers.run_in_thread(partial(self._remove, queue))
            queue.segments = {}

    async def _tell(self, queue: QueueIndex, segment: Segment) -> None:
        if not segment.doomed:
            return
        path = self._layout.segment_file(queue.name, segment.number)
        read = partial(_stored_entries, self._host.disk, path, segment.file_size, self._salt)
        for record in await self._host.workers.run_in_thread(read):
            if segment.doomed >> (record.sequence - segment.base) & 1:
                _bury(queue, segment, record)
        if segment.doomed:  # nobody can say any more where these bodies were
            queue.ack_places(segment, segment.doomed, 0)

    def _remove(self, queue: QueueIndex) -> None:
        directory = self._layout.queue_directory(queue.name)
        disk = self._host.disk
        for number in queue.segments:
            with suppress(FileNotFoundError):
                disk.unlink(self._layout.segment_file(queue.name, number))
        with suppress(OSError):  # a queue of the same name may have come
            if disk.list(directory) == [".queue_name"]:
                disk.unlink(directory / ".queue_name")
                disk.remove_directory(directory)


def discard(queue: QueueIndex) -> None:
    """Forget everything: the queue is being deleted."""
    queue.is_deleted = True
    for queued in [*queue.gathered, *queue.gathered_stored]:
        if queued.state == GATHERED:
            queue.ack([queued])
    queue.ack(queue.lone.all)
    for entries in (queue.writing, queue.scattering, queue.journaled):
        weight, stored = discard_embedded(entries)
        if weight and queue.credit is not None:
            queue.credit.release(weight)
        queue.ack(stored)
    queue.journaled = []
    queue.journaled_dead = 0


def _bury(queue: QueueIndex, segment: Segment, record: Record) -> None:
    """Record the death of one that was doomed, now that it is known where its body is."""
    sequence, size = record.sequence, record.size
    file, offset = record.store_file, record.store_offset
    if file >= TRANSIENT_FILE_MIN:
        queue.transient_bodies.died(file, offset, size)
    else:
        queue.acks.append((sequence, 1, size, file, offset))
        queue.bodies.died(file, offset, size)
        queue.become_dirty()
    queue.ack_places(segment, places_of(sequence, 1), size)


def _stored_entries(disk: Disk, path: Path, size: int, salt: int) -> list[Record]:
    try:
        descriptor = disk.open(path)
    except FileNotFoundError:
        return []
    try:
        data = disk.read(descriptor, 0, size)
    finally:
        disk.close(descriptor)
    records, _, _ = scan(data, FILE_HEADER_BYTES, salt)
    return [r for r in records if r.kind == PUBLISH and r.flags & STORED]


def sweep(layout: IndexLayout, disk: Disk, states: Iterable[QueueState]) -> None:
    """Delete what a power cut brought back, or left half done: files that nobody knows of."""
    known: dict[str, set[int]] = {}
    for state in states:
        name = layout.queue_directory(state.name).name
        known.setdefault(name, set()).update(state.segments)
    for name in disk.list(layout.queues_directory):
        directory = layout.queues_directory / name
        numbers = known.get(name, set())
        for number in numbered(disk.list(directory), SEGMENT_SUFFIX):
            if number not in numbers:
                disk.unlink(directory / f"{number}{SEGMENT_SUFFIX}")
        if not numbers:
            with suppress(FileNotFoundError):
                disk.unlink(directory / ".queue_name")
            with suppress(OSError):  # somebody put other things there
                disk.remove_directory(directory)
