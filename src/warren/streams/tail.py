"""What a log's last chunks are, so that two copies of a log can find where they part.

Copies of a log are made of the same chunks, and each grows only at its end, by what whoever led
then has written behind what it had. So if two have the same chunk at an offset, they are the same
up to there; and if they are the same up to a chunk, all before it is. A chunk is known by its two
checksums, of which the header's covers when it was written, and the other one's value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from warren.storage.disk.files import Disk
from warren.streams.chunk_format import HEADER_BYTES
from warren.streams.pending_chunks import PendingChunk, fingerprint_of
from warren.streams.reading import SegmentReader
from warren.streams.segments import ENTRY, ENTRY_BYTES, IndexEntry, Segment, SegmentFiles

Fingerprint: TypeAlias = tuple[int, int, int]
"""Of a chunk: its checksums, its first offset, how many records it has."""

TAIL_CHUNKS_MAX: Final = 1_024
"""What copies have and their master has not is no more than this, or they begin anew."""


class Tail:
    """The newest chunks of a log, as far as they are known; there may be gaps between them."""

    def __init__(self, chunks: Iterable[Fingerprint] = ()) -> None:
        self._chunks = deque(chunks, TAIL_CHUNKS_MAX)

    def add(self, chunk: PendingChunk) -> None:
        self._chunks.append((chunk.fingerprint, chunk.first_offset, chunk.records))

    def cut(self, end: int) -> None:
        while self._chunks and self._chunks[-1][1] >= end:
            self._chunks.pop()

    def fingerprints(self) -> list[Fingerprint]:
        return list(self._chunks)


def read_tail(disk: Disk, files: SegmentFiles, segments: Sequence[Segment]) -> list[Fingerprint]:
    """Blocks."""
    tail: list[Fingerprint] = []
    for segment in reversed(segments):
        wanted = min(segment.chunks, TAIL_CHUNKS_MAX - len(tail))
        if wanted:
            tail = _read_last(disk, files, segment, wanted) + tail
    return tail


def _read_last(disk: Disk, files: SegmentFiles, segment: Segment, count: int) -> list[Fingerprint]:
    """The last chunks of a segment."""
    index, data = disk.open(files.index(segment.base)), disk.open(files.data(segment.base))
    try:
        raw = disk.read(index, (segment.chunks - count) * ENTRY_BYTES, count * ENTRY_BYTES)
        entries = [
            IndexEntry(*ENTRY.unpack_from(raw, at)) for at in range(0, len(raw), ENTRY_BYTES)
        ]
        return [_fingerprint(disk, data, entry) for entry in entries]
    finally:
        disk.close(index)
        disk.close(data)


def _fingerprint(disk: Disk, data: int, entry: IndexEntry) -> Fingerprint:
    header = disk.read(data, entry.position, HEADER_BYTES)
    return fingerprint_of(header), entry.first_offset, entry.records


def fingerprint_at(reader: SegmentReader, segments: Sequence[Segment], offset: int) -> int | None:
    """Of the chunk that begins at an offset; None if there is none. Blocks."""
    segment = next((s for s in segments if s.base <= offset < s.end), None)
    if segment is None:
        return None
    entry = reader.last_entry(segment, lambda entry: entry.first_offset <= offset)
    if entry is None or entry.first_offset != offset:
        return None
    return fingerprint_of(reader.read_once(segment.base, entry.position, HEADER_BYTES))


def common_end(theirs: Sequence[Fingerprint], has: Callable[[Fingerprint], bool]) -> int | None:
    """Behind the last of their chunks that is also here; None if none of them is."""
    low, high = 0, len(theirs)
    while low < high:
        middle = (low + high) // 2
        if has(theirs[middle]):
            low = middle + 1
        else:
            high = middle
    return theirs[low - 1][1] + theirs[low - 1][2] if low else None
