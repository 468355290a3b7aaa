"""Segments on disk: their names, their indexes, and what is found of them after a crash.

    <base>.segment    chunks (chunk_format.py), from the record with offset <base> on
    <base>.index      for each chunk 32 bytes: where it is and when it was taken

    index entry       u64 first offset, i64 milliseconds, u64 position, u32 records, u32 CRC-32C

**What a confirm promises** is that the chunk is synced. Its index entry is written along with it
and not synced: what the index lacks, or says wrongly, is found again from the chunks.

**What a crash leaves.** Batches are written one after another, each synced before the next begins,
so only what the last batch wrote can be torn: a chunk cut short, or with a hole. The newest segment
is read again from VERIFIED_BYTES before its end, more than any batch has; the first chunk that is
not sound ends it, and the file is cut there. All of it is synced before anybody reads it: what was
shown once must not be taken back by a power cut.

**After a failed write** a stream goes on in a new segment that begins where the last safe record
ended (log.py). What the older one has beyond that is void, and is cut off when it is found: a
segment never reaches beyond the base of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from warren.storage.disk.checksum import crc32c
from warren.storage.disk.files import Disk, append_all
from warren.storage.disk.layout import numbered
from warren.streams.chunk_format import (
    HEADER_BYTES,
    ChunkHeader,
    MalformedChunk,
    is_sound,
    read_header,
)

NAME_FILE: Final = ".queue_name"
# In the name of a directory whose stream was deleted, until its files are gone.
GONE: Final = ".gone-"
DATA_SUFFIX: Final = ".segment"
INDEX_SUFFIX: Final = ".index"
ENTRY: Final = Struct("<QqQI")
ENTRY_BYTES: Final = 32
VERIFIED_BYTES: Final = 64 * 1_048_576
_WINDOW_BYTES: Final = 4 * 1_048_576
_CHECKSUM: Final = Struct("<I")


class IndexEntry(NamedTuple):
    first_offset: int
    timestamp_ms: int
    position: int
    records: int

    def encoded(self) -> bytes:
        entry = ENTRY.pack(*self)
        return entry + _CHECKSUM.pack(crc32c(entry))


@dataclass(slots=True)
class Segment:
    """What of a segment is safe. `end` is the offset behind its last record."""

    base: int
    end: int
    size: int = 0
    chunks: int = 0
    first_ms: int = 0
    last_ms: int = 0
    last_chunk: int = -1
    """Offset of the first record of its last chunk; -1 if there is none."""

    def add(self, entry: IndexEntry, chunk_bytes: int) -> None:
        assert entry.position == self.size, "chunks follow each other"
        if not self.chunks:
            self.first_ms = entry.timestamp_ms
        self.end = entry.first_offset + entry.records
        self.last_ms = entry.timestamp_ms
        self.last_chunk = entry.first_offset
        self.size += chunk_bytes
        self.chunks += 1


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """Where the segments of one stream are."""

    directory: Path

    def data(self, base: int) -> Path:
        return self.directory / f"{base:020d}{DATA_SUFFIX}"

    def index(self, base: int) -> Path:
        return self.directory / f"{base:020d}{INDEX_SUFFIX}"


def recover_segments(disk: Disk, files: SegmentFiles) -> list[Segment]:
    """All that is safe of a stream, oldest first; files are cut to that. Blocks."""
    bases = numbered(disk.list(files.directory), DATA_SUFFIX)
    segments = []
    for number, base in enumerate(bases):
        limit = bases[number + 1] if number + 1 < len(bases) else None
        segments.append(_recover(disk, files, base, limit))
    return segments


def _recover(disk: Disk, files: SegmentFiles, base: int, limit: int | None) -> Segment:
    """`limit` is where the next segment begins; None for the newest."""
    size = disk.size(files.data(base))
    entries = _read_entries(disk, files.index(base), base, limit)
    data = disk.open(files.data(base))
    try:
        verified = 0 if limit is None else size
        while entries and not _is_right(disk, data, entries[-1], size, verified):
            entries.pop()
        segment = Segment(base, base)
        if entries:
            _restore(disk, data, segment, entries)
        known = len(entries)
        for position, header in scan_chunks(disk, data, segment.size, size):
            if header.first_offset != segment.end or header.end_offset > (limit or 1 << 64):
                break
            entry = IndexEntry(header.first_offset, header.timestamp_ms, position, header.records)
            segment.add(entry, header.size)
            entries.append(entry)
        if segment.size < size:
            disk.truncate(data, segment.size)
        if limit is None:
            disk.sync(data)
    finally:
        disk.close(data)
    _rewrite_index(disk, files.index(base), entries, known)
    return segment


def _restore(disk: Disk, data: int, segment: Segment, entries: list[IndexEntry]) -> None:
    """The segment as these entries tell it, of which the last has been looked at."""
    first, last = entries[0], entries[-1]
    header = read_header(disk.read(data, last.position, HEADER_BYTES))
    segment.first_ms = first.timestamp_ms
    segment.last_ms = last.timestamp_ms
    segment.last_chunk = last.first_offset
    segment.end = header.end_offset
    segment.size = last.position + header.size
    segment.chunks = len(entries)


def _read_entries(disk: Disk, path: Path, base: int, limit: int | None) -> list[IndexEntry]:
    """Those of an index that are sound and follow each other."""
    try:
        descriptor = disk.open(path)
    except FileNotFoundError:
        return []
    try:
        data = disk.read(descriptor, 0, disk.size(path))
    finally:
        disk.close(descriptor)
    entries: list[IndexEntry] = []
    end = base
    for start in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        raw = data[start : start + ENTRY_BYTES]
        entry = IndexEntry(*ENTRY.unpack_from(raw))
        is_sure = _CHECKSUM.unpack_from(raw, ENTRY.size)[0] == crc32c(raw[: ENTRY.size])
        after = entry.first_offset + entry.records
        if not is_sure or entry.first_offset != end or after > (limit or 1 << 64):
            break
        entries.append(entry)
        end = after
    return entries


def _is_right(disk: Disk, data: int, entry: IndexEntry, size: int, verified: int) -> bool:
    """Whether the chunk is there, whole, and does not have to be looked at any closer."""
    try:
        header = read_header(disk.read(data, entry.position, HEADER_BYTES))
    except MalformedChunk:
        return False
    end = entry.position + header.size
    is_it = (header.first_offset, header.records) == (entry.first_offset, entry.records)
    return is_it and end <= size and (verified > 0 or end <= size - VERIFIED_BYTES)


def scan_chunks(
    disk: Disk, data: int, position: int, size: int
) -> Iterator[tuple[int, ChunkHeader]]:
    """Chunks from a position on, up to the first that is not sound."""
    window, start = b"", position
    while position < size:
        try:
            if position + HEADER_BYTES > start + len(window):
                window, start = disk.read(data, position, _WINDOW_BYTES), position
            header = read_header(window, position - start)
            if position + header.size > start + len(window):
                wanted = max(_WINDOW_BYTES, header.size)
                window, start = disk.read(data, position, wanted), position
            if not is_sound(window, position - start, header):
                return
        except MalformedChunk:
            return
        yield position, header
        position += header.size


def _rewrite_index(disk: Disk, path: Path, entries: list[IndexEntry], known: int) -> None:
    """Have the index say this; it is known to say it already as far as the `known`th entry."""
    descriptor = disk.open(path, create=True)
    try:
        if disk.size(path) != known * ENTRY_BYTES:
            disk.truncate(descriptor, known * ENTRY_BYTES)
        if entries[known:]:
            append_all(disk, descriptor, [b"".join(e.encoded() for e in entries[known:])])
    finally:
        disk.close(descriptor)
