"""Ranges of a stream for those who read files: which bytes they are, and where to cut them.

A range of offsets is served as whole chunks, byte for byte as they are in the segments. So its
first chunk may begin before the range and its last one end behind it: whoever reads passes over
what it did not ask for, which the headers tell. Nothing is decoded here, nor are checksums looked
at: they are in the chunks, and looked at where they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from warren.streams.reading import SegmentReader
from warren.streams.segments import Segment

CUTS_MAX: Final = 1_000
# A range of more segments is cut short: each has a file that is open as long as the range is read.
SEGMENTS_MAX: Final = 32

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a segment's file."""

    base: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a chunk begins; `bytes` counts from the beginning of the stream as it is now."""

    offset: int
    timestamp_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unread:
    """What a reader has before it: bytes of whole chunks, and when the first record was taken."""

    bytes: int
    oldest_ms: int | None


def pieces_of(
    reader: SegmentReader,
    segments: Sequence[Segment],
    span: Span,
    bytes_max: int | None = None,
) -> list[Piece]:
    """The chunks that have any record of [start, end), of the first SEGMENTS_MAX segments. Blocks.

    With `bytes_max`, no more than that, but for the first chunk.
    """
    start, end = span
    pieces = []
    wanted = [s for s in segments if s.end > start and s.base < end]
    for segment in wanted[:SEGMENTS_MAX]:
        if bytes_max == 0:
            break
        first = reader.last_entry(segment, lambda entry: entry.first_offset <= start)
        begin = 0 if first is None else first.position
        stop = segment.size
        if end < segment.end:
            stop = reader.position_of_first(segment, lambda entry: entry.first_offset >= end)
        if bytes_max is not None:
            stop = _bounded(reader, segment, (begin, stop), bytes_max)
            bytes_max = max(0, bytes_max - (stop - begin))
            bytes_max = 0 if stop < segment.size else bytes_max
        pieces.append(Piece(segment.base, begin, stop))
    return pieces


def _bounded(reader: SegmentReader, segment: Segment, span: Span, bytes_max: int) -> int:
    """Where the last chunk ends that is whole within so many bytes, or else the first."""
    begin, stop = span
    if stop - begin <= bytes_max:
        return stop
    last = reader.last_entry(segment, lambda entry: entry.position <= begin + bytes_max)
    if last is not None and last.position > begin:
        return last.position
    return reader.position_of_first(segment, lambda entry: entry.position > begin)


def cuts_of(
    reader: SegmentReader, segments: Sequence[Segment], span: Span, count_max: int
) -> list[Cut]:
    """Beginnings of chunks within [start, end), evenly chosen, no more than so many. Blocks."""
    start, end = span
    wanted = [s for s in segments if s.end > start and s.base < end]
    chunks = sum(segment.chunks for segment in wanted)
    every = -(-chunks // max(1, count_max)) or 1
    cuts = []
    before = sum(segment.size for segment in segments if segment.end <= start)
    for segment in wanted:
        cuts += [
            Cut(entry.first_offset, entry.timestamp_ms, before + entry.position)
            for entry in reader.entries(segment, every)
            if start <= entry.first_offset < end
        ]
        before += segment.size
    return cuts


def unread_of(reader: SegmentReader, segments: Sequence[Segment], offset: int) -> Unread:
    """What is there from an offset on. Blocks."""
    wanted = [segment for segment in segments if segment.end > offset]
    if not wanted:
        return Unread(0, None)
    first = reader.last_entry(wanted[0], lambda entry: entry.first_offset <= offset)
    size = sum(segment.size for segment in wanted)
    if first is None:
        return Unread(size, wanted[0].first_ms)
    return Unread(size - first.position, first.timestamp_ms)
