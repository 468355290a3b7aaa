"""Appending to segment files. Making a step happens on the loop, performing it in a thread.

A step is a bounded amount of work for one visit to the disk: entries of the journal that are still
alive, and acknowledgements of entries that are in segments already, of one queue or of many. When
it was performed everything in it is safe, and the segments are told; when it failed, nothing of it
counts, and the files are cut to what they were before the next step appends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.storage.disk import Disk, append_all
from warren.storage.index_format import FILE_HEADER_BYTES, SEGMENT_MAGIC, file_header
from warren.storage.index_records import EMBEDDED, RecordBuffer
from warren.storage.layout import IndexLayout, encode_name
from warren.storage.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT, Segment, runs_of
from warren.storage.states import DEAD, JOURNALED, SCATTERING, SEGMENTED, TRANSIENT_FILE_MIN
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.storage.queue_index import QueueIndex

STEP_BYTES: Final = 512 * 1_024
STEP_FILES_MAX: Final = 64

_log = logging.getLogger("warren.storage")

_PLACE_MASK: Final = SEGMENT_ENTRIES - 1


class SegmentWrite:
    """What a step appends to one file."""

    def __init__(self, queue: QueueIndex, segment: Segment, path: Path) -> None:
        self.queue = queue
        self.segment = segment
        self.path = path
        self.entries: list[QueuedMessage] = []
        self.acks = 0
        self.buffer: RecordBuffer | None = None

    def finish(self) -> None:
        """It is in the file for good."""
        assert self.buffer is not None
        segment = self.segment
        if not segment.has_file:
            segment.has_file = True
            segment.file_size = FILE_HEADER_BYTES
            self.queue.has_directory = True
        segment.file_size += self.buffer.size
        segment.is_suspect = False
        segment.unwritten_acks &= ~self.acks
        if self.entries:
            self._enter()

    def _enter(self) -> None:
        segment = self.segment
        live, transient, stored = (bytearray(SEGMENT_ENTRIES // 8) for _ in range(3))
        embedded_bytes = stored_bytes = 0
        for queued in self.entries:
            place = queued.sequence & _PLACE_MASK
            if queued.state != SCATTERING:
                assert queued.state == DEAD, "what is being copied is alive or dead"
                segment.unwritten_acks |= 1 << place
                continue
            queued.state = SEGMENTED
            bit = 1 << (place & 7)
            live[place >> 3] |= bit
            if queued.store_file != EMBEDDED:
                stored[place >> 3] |= bit
                if queued.store_file >= TRANSIENT_FILE_MIN:
                    transient[place >> 3] |= bit
                else:
                    stored_bytes += queued.size
            elif queued.message.properties.persistent:
                embedded_bytes += queued.size
            else:
                transient[place >> 3] |= bit
        segment.note_order(
            self.entries[0].sequence & _PLACE_MASK, self.entries[-1].sequence & _PLACE_MASK
        )
        segment.entries += len(self.entries)
        segment.add(_places(live), _places(transient), embedded_bytes, stored_bytes)
        segment.stored |= _places(stored)
        if not segment.live:
            self.queue.bury(segment)

    def undo(self) -> None:
        """It is not, or not for sure."""
        if self.segment.has_file:
            self.segment.is_suspect = True
        else:
            self.queue.segments.pop(self.segment.number, None)
        for queued in self.entries:
            if queued.state == SCATTERING:
                queued.state = JOURNALED


class Step:
    def __init__(self, layout: IndexLayout, salt: int) -> None:
        self._layout = layout
        self._salt = salt
        self._size = 0
        self.writes: list[SegmentWrite] = []

    @property
    def is_full(self) -> bool:
        return self._size >= STEP_BYTES or len(self.writes) >= STEP_FILES_MAX

    def add_entries(self, queue: QueueIndex, position: int) -> int:
        """Entries of `queue.scattering` from `position`, as far as they fit; where to go on."""
        entries = queue.scattering
        while position < len(entries) and not self.is_full:
            number = entries[position].sequence >> SEGMENT_SHIFT
            segment = queue.segments.get(number) or Segment(number)
            write = self._write(queue, segment)
            assert write.buffer is not None
            end = (number + 1) << SEGMENT_SHIFT
            room = STEP_BYTES - self._size
            start = position
            position = write.buffer.scatter(queue.queue_id, entries, position, end, room)
            write.entries = [q for q in entries[start:position] if q.state == SCATTERING]
            self._close(write)
        return position

    def add_acks(self, queue: QueueIndex, segment: Segment) -> None:
        write = self._write(queue, segment)
        assert write.buffer is not None
        write.acks = segment.unwritten_acks
        for first, count in runs_of(write.acks):
            write.buffer.ack(queue.queue_id, segment.base + first, count, 0)
        self._close(write)

    def _write(self, queue: QueueIndex, segment: Segment) -> SegmentWrite:
        path = self._layout.segment_file(queue.name, segment.number)
        write = SegmentWrite(queue, segment, path)
        write.buffer = RecordBuffer(self._salt)
        return write

    def _close(self, write: SegmentWrite) -> None:
        assert write.buffer is not None
        if write.buffer.size:
            self._size += write.buffer.size
            write.queue.segments.setdefault(write.segment.number, write.segment)
            self.writes.append(write)

    def perform(self, disk: Disk) -> None:
        """Append and sync everything; blocks."""
        descriptors: list[int] = []
        directories: dict[Path, None] = {}
        prepared: set[Path] = set()
        try:
            for write in self.writes:
                descriptors.append(self._open(disk, write, directories))
                if write.path not in prepared:
                    prepared.add(write.path)
                    self._prepare(disk, write, descriptors[-1])
                assert write.buffer is not None
                append_all(disk, descriptors[-1], [write.buffer.view()])
            for descriptor in descriptors:
                disk.sync(descriptor)
            for directory in directories:
                disk.sync_directory(directory)
        finally:
            for descriptor in descriptors:
                disk.close(descriptor)

    def _open(self, disk: Disk, write: SegmentWrite, directories: dict[Path, None]) -> int:
        segment = write.segment
        if segment.has_file:
            try:
                return disk.open(write.path)
            except FileNotFoundError:
                if segment.live:
                    _log.error("%s is gone, with %d messages", write.path, segment.live_count)
                segment.has_file = False
                write.queue.has_directory = False
        directories.update(dict.fromkeys(self._make_directory(disk, write)))
        return disk.open(write.path, create=True)

    def _prepare(self, disk: Disk, write: SegmentWrite, descriptor: int) -> None:
        """Let the file end where it should."""
        segment = write.segment
        if not segment.has_file:
            disk.truncate(descriptor, 0)
            header = file_header(SEGMENT_MAGIC, self._salt, write.queue.queue_id, segment.number)
            append_all(disk, descriptor, [header])
        elif segment.is_suspect:
            disk.truncate(descriptor, segment.file_size)

    @staticmethod
    def _make_directory(disk: Disk, write: SegmentWrite) -> Iterator[Path]:
        """The directories to sync so that a new file keeps its name."""
        directory = write.path.parent
        yield directory
        if write.queue.has_directory:
            return
        yield directory.parent
        disk.make_directory(directory)
        descriptor = disk.open(directory / ".queue_name", create=True)
        try:
            disk.truncate(descriptor, 0)
            append_all(disk, descriptor, [encode_name(write.queue.name)])
            disk.sync(descriptor)
        finally:
            disk.close(descriptor)


def _places(bits: bytearray) -> int:
    return int.from_bytes(bits, "little")
