"""Reading segments, where blocking is allowed: what is at an offset, or since a moment.

Only what is safe is read: a `Segment` given here is a copy of what was known of it on the loop, and
nothing beyond its size and its chunks is looked at, though more may be in the files already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from warren.storage.disk.files import Disk
from warren.streams.chunk_format import (
    HEADER_BYTES,
    ChunkHeader,
    MalformedChunk,
    is_sound,
    read_header,
)
from warren.streams.segments import ENTRY, ENTRY_BYTES, IndexEntry, Segment, SegmentFiles

READ_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk begins."""

    base: int
    position: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole chunks that follow each other in one segment: their bytes, and where each begins."""

    data: bytes
    chunks: tuple[tuple[int, ChunkHeader], ...]
    after: Place
    damaged_end: int | None = None
    """Where to go on, if what is at the end of it cannot be read."""


class SegmentReader:
    def __init__(self, disk: Disk, files: SegmentFiles) -> None:
        self._disk = disk
        self._files = files

    def find_offset(self, segments: Sequence[Segment], offset: int) -> Place | None:
        """The chunk that has the offset, or the next there is; None if there is none yet."""
        segment = next((s for s in segments if s.end > offset), None)
        if segment is None:
            return None
        entry = self.last_entry(segment, lambda entry: entry.first_offset <= offset)
        return Place(segment.base, entry.position if entry is not None else 0)

    def find_time(self, segments: Sequence[Segment], timestamp_ms: int) -> int | None:
        """Offset of the first chunk taken at this time or later; None if there is none yet."""
        segment = next((s for s in segments if s.chunks and s.last_ms >= timestamp_ms), None)
        if segment is None:
            return None
        before = self.last_entry(segment, lambda entry: entry.timestamp_ms < timestamp_ms)
        return segment.base if before is None else before.first_offset + before.records

    def last_entry(
        self, segment: Segment, holds: Callable[[IndexEntry], bool]
    ) -> IndexEntry | None:
        """The last one in the index of which it holds; it holds of all before that one."""
        index = self._disk.open(self._files.index(segment.base))
        try:
            low, high, found = 0, segment.chunks, None
            while low < high:
                middle = (low + high) // 2
                entry = self._entry(index, middle)
                if holds(entry):
                    low, found = middle + 1, entry
                else:
                    high = middle
            return found
        finally:
            self._disk.close(index)

    def position_of_first(self, segment: Segment, holds: Callable[[IndexEntry], bool]) -> int:
        """Of the first chunk of which it holds, as it does of all behind; else of the end."""
        before = self.last_entry(segment, lambda entry: not holds(entry))
        if before is None:
            return 0
        data = self._disk.open(self._files.data(segment.base))
        try:
            header = read_header(self._disk.read(data, before.position, HEADER_BYTES))
        finally:
            self._disk.close(data)
        return before.position + header.size

    def entries(self, segment: Segment, every: int) -> list[IndexEntry]:
        """One of each so many, the first among them."""
        index = self._disk.open(self._files.index(segment.base))
        try:
            return [self._entry(index, number) for number in range(0, segment.chunks, every)]
        finally:
            self._disk.close(index)

    def _entry(self, index: int, number: int) -> IndexEntry:
        raw = self._disk.read(index, number * ENTRY_BYTES, ENTRY_BYTES)
        return IndexEntry(*ENTRY.unpack_from(raw))

    def open_data(self, base: int) -> int:
        """A segment's file, to be read even when it has been removed; raises OSError if it is."""
        return self._disk.open(self._files.data(base))

    def read_bytes(self, data: int, start: int, size: int) -> bytes:
        """As they are in the file."""
        return self._disk.read(data, start, size)

    def close_data(self, data: int) -> None:
        self._disk.close(data)

    def read_once(self, base: int, start: int, size: int) -> bytes:
        """Bytes of a segment of which nothing else is wanted. Raises OSError if it is removed."""
        data = self.open_data(base)
        try:
            return self.read_bytes(data, start, size)
        finally:
            self.close_data(data)

    def find_stretch(
        self, segments: Sequence[Segment], offset: int, bytes_max: int = READ_BYTES
    ) -> Stretch | None:
        """What is at an offset and after it."""
        place = self.find_offset(segments, offset)
        if place is None:
            return None
        segment = next(segment for segment in segments if segment.base == place.base)
        return self.read(segment, place.position, bytes_max)

    def read(self, segment: Segment, position: int, bytes_max: int = READ_BYTES) -> Stretch:
        """Chunks from there on: at least one, and no more bytes than these unless it is long."""
        data = self._disk.open(self._files.data(segment.base))
        try:
            wanted = min(bytes_max, segment.size - position)
            read = self._disk.read(data, position, wanted)
            try:
                first = read_header(read)
            except MalformedChunk:
                return self._damaged(segment, position)
            if first.size > len(read):
                read = self._disk.read(data, position, first.size)
        finally:
            self._disk.close(data)
        return self._stretch(segment, position, read)

    def _stretch(self, segment: Segment, position: int, read: bytes) -> Stretch:
        chunks: list[tuple[int, ChunkHeader]] = []
        at = 0
        while at + HEADER_BYTES <= len(read):
            try:
                header = read_header(read, at)
            except MalformedChunk:
                return self._damaged(segment, position + at, read, chunks)
            if at + header.size > len(read):
                break
            if not is_sound(read, at, header):
                return self._damaged(segment, position + at, read, chunks)
            chunks.append((at, header))
            at += header.size
        return Stretch(read[:at], tuple(chunks), Place(segment.base, position + at))

    def _damaged(
        self,
        segment: Segment,
        position: int,
        read: bytes = b"",
        chunks: Sequence[tuple[int, ChunkHeader]] = (),
    ) -> Stretch:
        """The index knows where the next chunk begins, or there is none in this segment."""
        before = self.last_entry(segment, lambda entry: entry.position <= position)
        end = segment.end if before is None else before.first_offset + before.records
        after = Place(segment.base, segment.size)
        return Stretch(read, tuple(chunks), after, damaged_end=end)
