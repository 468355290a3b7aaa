"""Appending to segment files. A step is made on the loop and appended in a thread.

A step is a bounded amount of work: entries of the journal that are still alive, and acks of entries
that are in segments already, of one queue or of many. Steps are appended one after another; every
so often all files that were appended to are synced. Only then the segments are told, and the
messages. When anything fails, nothing since the last sync counts, and the files are cut to
what they were before they are appended to again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.model.logs import EventLog
from warren.storage.disk.files import Disk, append_all
from warren.storage.disk.layout import IndexLayout, encode_name
from warren.storage.index.index_format import SEGMENT_MAGIC, file_header
from warren.storage.index.index_records import RecordBuffer
from warren.storage.index.segment import SEGMENT_SHIFT, Segment, runs_of
from warren.storage.index.segment_entry import enter, in_state, leave
from warren.storage.index.states import JOURNALED, SCATTERING
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex

STEP_BYTES: Final = 512 * 1_024
STEP_FILES_MAX: Final = 64

_log = EventLog("storage")


class SegmentWrite:
    """What a step appends to one file."""

    def __init__(self, queue: QueueIndex, segment: Segment, path: Path, salt: int) -> None:
        self.queue = queue
        self.segment = segment
        self.path = path
        self.entries: list[QueuedMessage] = []
        self.acks = 0
        self.size = 0
        self.lead_bytes = 0  # what a new file begins with
        self.buffer: RecordBuffer | None = RecordBuffer(salt)

    def finish(self) -> None:
        """It is in the file for good."""
        segment = self.segment
        if not segment.has_file:
            segment.has_file = True
            segment.file_size = self.lead_bytes
            self.queue.has_directory = True
        segment.file_size += self.size
        segment.is_suspect = False
        segment.unwritten_acks &= ~self.acks
        if self.entries:
            weight = enter(segment, self.entries)
            if weight and self.queue.credit is not None:
                self.queue.credit.release(weight)
            if not segment.live:
                self.queue.bury(segment)
        if segment.unwritten_acks:  # also those that came while it was being copied
            self.queue.acked_segments[segment.number] = segment

    def undo(self) -> None:
        """It is not, or not for sure."""
        leave(self.entries, JOURNALED)
        if self.segment.has_file:
            self.segment.is_suspect = True
        else:
            self.queue.segments.pop(self.segment.number, None)


class Step:
    def __init__(self, layout: IndexLayout, salt: int) -> None:
        self._layout = layout
        self._salt = salt
        self.size = 0
        self.writes: list[SegmentWrite] = []

    @property
    def is_full(self) -> bool:
        return self.size >= STEP_BYTES or len(self.writes) >= STEP_FILES_MAX

    def add_entries(self, queue: QueueIndex, position: int) -> int:
        """Entries of `queue.scattering` from `position`, as far as they fit; where to go on."""
        entries = queue.scattering
        while position < len(entries) and not self.is_full:
            number = entries[position].sequence >> SEGMENT_SHIFT
            write = self._write(queue, queue.segments.get(number) or Segment(number))
            assert write.buffer is not None
            end = (number + 1) << SEGMENT_SHIFT
            start = position
            room = STEP_BYTES - self.size
            position = write.buffer.scatter(queue.queue_id, entries, position, end, room)
            write.entries = in_state(entries[start:position], SCATTERING)
            self._add(write)
        return position

    def add_acks(self, queue: QueueIndex, segment: Segment) -> None:
        write = self._write(queue, segment)
        assert write.buffer is not None
        write.acks = segment.unwritten_acks
        for first, count in runs_of(write.acks):
            write.buffer.ack(queue.queue_id, segment.base + first, count, 0)
        self._add(write)

    def _write(self, queue: QueueIndex, segment: Segment) -> SegmentWrite:
        path = self._layout.segment_file(queue.name, segment.number)
        return SegmentWrite(queue, segment, path, self._salt)

    def _add(self, write: SegmentWrite) -> None:
        assert write.buffer is not None
        write.size = write.buffer.size
        if write.size:
            self.size += write.size
            write.queue.segments.setdefault(write.segment.number, write.segment)
            self.writes.append(write)


class SegmentFiles:
    """Files that are being appended to; all of this blocks."""

    def __init__(self, disk: Disk, salt: int) -> None:
        self._disk = disk
        self._salt = salt
        self._open: dict[Path, int] = {}
        self._directories: dict[Path, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def append(self, writes: Sequence[SegmentWrite]) -> None:
        for write in writes:
            descriptor = self._open.get(write.path)
            if descriptor is None:
                descriptor = self._open[write.path] = self._begin(write)
                self._prepare(write, descriptor)
            assert write.buffer is not None
            append_all(self._disk, descriptor, [write.buffer.view()])
            write.buffer = None

    def syncs(self, parts: int) -> list[Callable[[], None]]:
        """Together these make everything safe; they may be called at the same time.

        A file system makes one commit of the syncs it is asked for at once.
        """
        steps: list[Callable[[], None]] = []
        steps += [partial(self._disk.sync, descriptor) for descriptor in self._open.values()]
        steps += [partial(self._disk.sync_directory, path) for path in self._directories]
        return [partial(_do_all, steps[part::parts]) for part in range(min(parts, len(steps)))]

    def close(self) -> None:
        self._directories.clear()
        while self._open:
            self._disk.close(self._open.popitem()[1])

    def _begin(self, write: SegmentWrite) -> int:
        segment = write.segment
        if segment.has_file:
            try:
                return self._disk.open(write.path)
            except FileNotFoundError:
                if segment.live:
                    _log.error(
                        "segment file missing", path=write.path, messages_lost=segment.live_count
                    )
                segment.has_file = False
                write.queue.has_directory = False
        self._directories.update(dict.fromkeys(self._make_directory(write)))
        return self._disk.open(write.path, create=True)

    def _prepare(self, write: SegmentWrite, descriptor: int) -> None:
        """Let the file end where it should."""
        segment, queue = write.segment, write.queue
        if not segment.has_file:
            _log.debug("segment created", path=write.path)
            self._disk.truncate(descriptor, 0)
            header = file_header(SEGMENT_MAGIC, self._salt, queue.queue_id, segment.number)
            name = RecordBuffer(self._salt)
            name.queue_named(queue.queue_id, encode_name(queue.name))
            append_all(self._disk, descriptor, [header, name.view()])
            write.lead_bytes = len(header) + name.size
        elif segment.is_suspect:
            self._disk.truncate(descriptor, segment.file_size)

    def _make_directory(self, write: SegmentWrite) -> Iterator[Path]:
        """The directories to sync so that a new file keeps its name."""
        directory = write.path.parent
        yield directory
        if write.queue.has_directory or directory in self._directories:
            return
        yield directory.parent
        self._disk.make_directory(directory)
        descriptor = self._disk.open(directory / ".queue_name", create=True)
        try:
            self._disk.truncate(descriptor, 0)
            append_all(self._disk, descriptor, [encode_name(write.queue.name)])
        finally:
            self._disk.close(descriptor)


def _do_all(steps: list[Callable[[], None]]) -> None:
    for step in steps:
        step()
