"""Streams read from their files: on the machine of a broker, or from a copy kept elsewhere.

Answers what `http_client.QueueClient` does of streams, of the files below a directory: that of one
stream, or one that has those of several somewhere below it, such as a node's data directory. A
stream is called what the file `.queue_name` says, or else like its directory.

Nobody says here how far records are safe: those of the newest segment are shown as far as they are
whole. A broker that is killed may cut off the last of them, which were not confirmed then. So a
query that is to take each record once asks the broker where the end is, and only reads the files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from pyspark_warren.chunk_pieces import PIECE_BYTES
from pyspark_warren.errors import DataLost, InvalidOption, QueueMissing
from pyspark_warren.http_client import Cut, Extent
from pyspark_warren.local_segments import LocalSegment
from pyspark_warren.positions import OFFSET_MAX
from warren.storage.disk.layout import decode_name, numbered
from warren.streams.segments import DATA_SUFFIX, GONE, NAME_FILE, SegmentFiles


class FileClient:
    """The streams below a directory."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._streams: dict[str, SegmentFiles] | None = None
        self._segments: dict[tuple[Path, int | None], LocalSegment] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What is mapped goes when nobody looks at it any more."""
        self._segments.clear()

    def queues(self) -> tuple[str, ...]:
        return tuple(self._found())

    def extent(self, queue: str) -> Extent:
        bases = self._bases(queue)
        if not bases:
            return Extent(0, 0, 0)
        files = self._files(queue)
        size = sum(files.data(base).stat().st_size for base in bases)
        return Extent(bases[0], self._segment(queue, bases, len(bases) - 1).end, size)

    def offset_at(self, queue: str, moment_ms: int) -> int:
        """The first offset taken at that moment or later; the end if there is none."""
        bases = self._bases(queue)
        for number in range(len(bases)):
            segment = self._segment(queue, bases, number)
            later = np.flatnonzero(segment.entries["ms"] >= moment_ms)
            if len(later):
                return int(segment.entries["offset"][later[0]])
        return self.extent(queue).end

    def cuts(self, queue: str, span: tuple[int, int], limit: int) -> list[Cut]:
        """Offsets within [start, end) at which a chunk begins, evenly chosen."""
        bases = self._bases(queue)
        offsets, positions, before = [], [], 0
        for number in range(len(bases)):
            segment = self._segment(queue, bases, number)
            offsets.append(segment.entries["offset"].astype(np.int64))
            positions.append(segment.entries["position"].astype(np.int64) + before)
            before += segment.size
        offset, position = np.concatenate(offsets), np.concatenate(positions)
        within = np.flatnonzero((offset >= span[0]) & (offset < span[1]))
        chosen = within[:: max(1, -(-len(within) // limit))]
        return [Cut(int(offset[number]), int(position[number])) for number in chosen]

    def records(self, queue: str, span: tuple[int, int]) -> Iterator[memoryview]:
        """Whole chunks with the first records of [start, end), piece by piece.

        They may end earlier, between two chunks: ask on behind what came.
        """
        start = span[0]
        bases = self._bases(queue)
        if not bases or start < bases[0]:
            first = bases[0] if bases else 0
            raise DataLost(f"{queue!r}: offset {start} is gone: it begins at {first}", first)
        try:
            segment = self._segment(queue, bases, bisect_right(bases, start) - 1, start)
        except FileNotFoundError:
            # It was removed just now: there are others to begin with.
            yield from self.records(queue, span)
            return
        yield from segment.pieces(start, PIECE_BYTES)

    # Files

    def _found(self) -> dict[str, SegmentFiles]:
        if self._streams is None:
            self._streams = find_streams(self._path)
        return self._streams

    def _files(self, queue: str) -> SegmentFiles:
        found = self._found()
        if queue not in found:
            names = ", ".join(map(repr, found))
            raise QueueMissing(f"there is no stream {queue!r} below {self._path}; found: {names}")
        return found[queue]

    def _bases(self, queue: str) -> list[int]:
        directory = self._files(queue).directory
        try:
            return numbered([path.name for path in directory.iterdir()], DATA_SUFFIX)
        except FileNotFoundError:
            raise QueueMissing(f"the stream {queue!r} is gone from {directory}") from None

    def _segment(
        self, queue: str, bases: list[int], number: int, offset: int = OFFSET_MAX
    ) -> LocalSegment:
        """The newest grows: it is looked at again, unless it is known to have this offset."""
        base = bases[number]
        limit = bases[number + 1] if number + 1 < len(bases) else None
        path = self._files(queue).data(base)
        known = self._segments.get((path, limit))
        if known is None or (limit is None and offset >= known.end):
            known = self._segments[path, limit] = LocalSegment(path, base, limit)
        return known


def find_streams(path: Path) -> dict[str, SegmentFiles]:
    """The streams at a path and below it, by name. Raises InvalidOption if there is none."""
    every = {file.parent for file in path.rglob(f"*{DATA_SUFFIX}")}
    directories = sorted(folder for folder in every if GONE not in folder.name)
    if not directories:
        raise InvalidOption(f"option path: no segments of streams ({DATA_SUFFIX}) below {path}")
    found: dict[str, SegmentFiles] = {}
    for directory in directories:
        name = _name_of(directory)
        if name in found:
            raise InvalidOption(
                f"option path: {found[name].directory} and {directory} both have a stream "
                f"{name!r}; give one of them"
            )
        found[name] = SegmentFiles(directory)
    return found


def _name_of(directory: Path) -> str:
    try:
        return decode_name((directory / NAME_FILE).read_bytes())
    except FileNotFoundError:
        return directory.name
