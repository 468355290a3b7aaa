"""One segment's file, mapped into memory: where its chunks are, and the bytes of some of them.

The index beside it (warren/streams/segments.py) says where chunks begin, but it is written without
care: it may lack the last ones, or be missing altogether in a copy. So it is believed as far as it
agrees with itself and its last entry with the file, and from there on headers are walked. Whatever
it says, a chunk is checked by its own sums before its records are shown.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyspark_warren.errors import MalformedAnswer
from warren.streams.chunk_format import ChunkHeader, MalformedChunk, is_sound, read_header
from warren.streams.segments import INDEX_SUFFIX, VERIFIED_BYTES

ENTRY: Final = np.dtype(
    [("offset", "<u8"), ("ms", "<i8"), ("position", "<u8"), ("records", "<u4"), ("sum", "<u4")]
)
Entries = NDArray[np.void]


class LocalSegment:
    """What of a segment's file is chunks. `limit` is where the next segment begins, if any does."""

    def __init__(self, path: Path, base: int, limit: int | None) -> None:
        self._path = path
        self._base = base
        self._limit = limit
        self._view = _mapped(path)
        self.entries, self.end, self.size = self._chunks()

    def __len__(self) -> int:
        return len(self.entries)

    def pieces(self, start: int, bytes_max: int) -> Iterator[memoryview]:
        """Whole chunks, from that with offset `start` on: each so long, or a chunk if longer."""
        positions = self.entries["position"].tolist()
        number = int(np.searchsorted(self.entries["offset"], start, side="right")) - 1
        while number < len(positions) and start < self.end:
            begin = positions[number]
            number = max(number + 1, bisect_right(positions, begin + bytes_max) - 1)
            if begin + bytes_max >= self.size:
                number = len(positions)
            yield self._view[begin : self.size if number == len(positions) else positions[number]]

    def _chunks(self) -> tuple[Entries, int, int]:
        """Entries, the offset behind the last record, and the bytes up to there."""
        entries = self._trusted(_read_index(self._path.with_suffix(INDEX_SUFFIX)))
        position, end = 0, self._base
        if len(entries):
            position = int(entries["position"][-1])
            header = read_header(self._view, position)
            position, end = position + header.size, header.end_offset
        found: list[tuple[int, int, int, int, int]] = []
        while (header_here := self._header(position, end)) is not None:
            header = header_here
            found.append((end, header.timestamp_ms, position, header.records, 0))
            position, end = position + header.size, header.end_offset
        if found:
            entries = np.concatenate([entries, np.array(found, dtype=ENTRY)])
        return entries, end, position

    def _trusted(self, entries: Entries) -> Entries:
        """As many as follow each other and are there."""
        if not len(entries) or int(entries["offset"][0]) != self._base:
            return entries[:0]
        ends = entries["offset"] + entries["records"]
        follows = (ends[:-1] == entries["offset"][1:]) & (
            np.diff(entries["position"].view("<i8")) > 0
        )
        wrong = np.flatnonzero(~follows)
        count = len(entries) if not len(wrong) else int(wrong[0]) + 1
        if self._limit is not None:
            count = min(count, int(np.searchsorted(ends, self._limit, side="right")))
        while count and not self._is_there(entries[count - 1]):
            count -= 1
        return entries[:count]

    def _is_there(self, entry: Any) -> bool:
        position, offset = int(entry["position"]), int(entry["offset"])
        header = self._header(position, offset)
        return header is not None and header.records == int(entry["records"])

    def _header(self, position: int, offset: int) -> ChunkHeader | None:
        """Of the chunk there, if it is the one with this offset and all of it is there.

        What was written last may be torn, so there the sum of the whole chunk is looked at.
        """
        try:
            header = read_header(self._view, position)
        except MalformedChunk:
            return None
        stop = position + header.size
        if header.first_offset != offset or stop > len(self._view):
            return None
        if self._limit is not None:
            return header if header.end_offset <= self._limit else None
        is_old = stop <= len(self._view) - VERIFIED_BYTES
        return header if is_old or is_sound(self._view, position, header) else None


def _mapped(path: Path) -> memoryview:
    """Nothing can be mapped of a file that has nothing."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return memoryview(b"")
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError as error:
            raise MalformedAnswer(f"{path} cannot be mapped: {error}") from error


def _read_index(path: Path) -> Entries:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return np.empty(0, dtype=ENTRY)
    return np.frombuffer(data[: len(data) // ENTRY.itemsize * ENTRY.itemsize], dtype=ENTRY)
