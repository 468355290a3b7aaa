"""Selecting records of a stream: chunks without a match are skipped, unwanted parts left out.

A reader that wants two columns of ten, or the records with one routing key, would have to be sent
everything and throw most of it away. Here the broker looks at what stands in front of the bodies of
each chunk (header, routes, property blocks), which is a hundredth of it, and

- skips chunks that cannot have a match. A chunk with a match comes with all its records: whoever
  reads filters them again, so a test may be rough, as long as it never misses one;
- leaves out parts that are not wanted. The chunk stays a sound one: bodies are empty, each record
  has one empty route, one empty property block, and flags (`flags.py`) say which parts were left
  out, so that nobody takes them for what was published.

A chunk of which nothing is left out is sent as it is on disk, with its own checksum, which the
reader looks at. A chunk that is reduced gets a checksum of its own, so that of the whole is looked
at here before, or damage would be sent as if it were sound. Where bodies are not wanted they are
not read from disk, and only the checksum of the header can be looked at.

An answer says how far it has looked: an offset, from which to go on, whether or not anything
matched. One answer looks at SCANNED_CHUNKS_MAX chunks and has SELECTED_BYTES_MAX, to a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct, unpack_from
from typing import Final

from warren.storage.disk.checksum import crc32c
from warren.streams.chunk_format import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SUMMED_BYTES,
    VERSION,
    ChunkHeader,
    MalformedChunk,
    is_sound,
    padded,
    read_header,
)
from warren.streams.flags import WITHOUT_BODIES, WITHOUT_PROPERTIES, WITHOUT_ROUTES
from warren.streams.ranges import Span
from warren.streams.reading import SegmentReader
from warren.streams.segments import Segment

SCANNED_CHUNKS_MAX: Final = 1_024
SELECTED_BYTES_MAX: Final = 4 * 1_048_576
# So much is read at a time to see what a chunk has; small chunks share one read.
WINDOW_BYTES: Final = 65_536
# A route without exchange and key, and a property block without properties, are two zeros each.
_BLANK: Final = b"\x00\x00"
_BLANK_ENDS: Final = b"\x00\x00\x00\x00\x02\x00\x00\x00"
_CHECKSUM: Final = Struct("<I")


class ChunkLead:
    """What stands in front of a chunk's bodies."""

    __slots__ = ("_data", "_places", "header")

    def __init__(self, header: ChunkHeader, data: bytes) -> None:
        self.header = header
        self._data = data
        self._places = header.parts()

    def part(self, number: int) -> bytes:
        """One of the seven parts between header and bodies, with the zeros behind it."""
        return self._data[self._places[number] : self._places[number + 1]]

    def routes(self) -> list[bytes]:
        """Raises MalformedChunk."""
        count, area = self.header.routes, self.part(5)
        ends = unpack_from(f"<{count + 1}I", self.part(3))
        if any(start > end for start, end in pairwise(ends)) or ends[-1] > len(area):
            raise MalformedChunk("ends that do not fit")
        return [area[start:end] for start, end in pairwise(ends)]

    def property_blocks(self) -> bytes:
        """All blocks, one behind another."""
        return self.part(6)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted of a range."""

    without: int = 0
    """Flags of the parts that are left out."""
    may_match: Callable[[ChunkLead], bool] | None = None
    """False if no record of the chunk is wanted; None: every chunk is."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Chunks, and the offset behind the last record that was looked at."""

    data: bytes
    next_offset: int


class DamagedChunk(Exception):
    """A chunk cannot be read; `offset` is that of its first record."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the chunk of offset {offset} is damaged")
        self.offset = offset


def select(
    reader: SegmentReader, segments: Sequence[Segment], span: Span, selection: Selection
) -> Selected:
    """The wanted parts of chunks that have any record of [start, end). Blocks.

    Raises DamagedChunk, and FileNotFoundError if retention was quicker.
    """
    start, end = span
    search = _Search(reader, selection, end)
    position = start
    for segment in segments:
        if segment.end > start and segment.base < end and not search.is_over:
            first = reader.last_entry(segment, lambda entry: entry.first_offset <= start)
            position = search.look_through(segment, 0 if first is None else first.position)
    return Selected(b"".join(search.found), max(start, min(position, end)))


class _Search:
    """Goes from chunk to chunk until it has looked at, or found, enough."""

    def __init__(self, reader: SegmentReader, selection: Selection, end: int) -> None:
        self._reader = reader
        self._selection = selection
        self._end = end
        self._scanned = 0
        self._bytes = 0
        self.found: list[bytes] = []

    @property
    def is_over(self) -> bool:
        return self._scanned >= SCANNED_CHUNKS_MAX or self._bytes >= SELECTED_BYTES_MAX

    def look_through(self, segment: Segment, position: int) -> int:
        """The offset behind the last record that was looked at."""
        offset = segment.base
        data = self._reader.open_data(segment.base)
        window = _Window(self._reader, data, segment.size)
        try:
            while position < segment.size and offset < self._end and not self.is_over:
                header = read_header(window.read(position, HEADER_BYTES))
                self._take(window, position, header)
                position, offset = position + header.size, header.end_offset
        except MalformedChunk:
            raise DamagedChunk(offset) from None
        finally:
            self._reader.close_data(data)
        return offset

    def _take(self, window: _Window, position: int, header: ChunkHeader) -> None:
        self._scanned += 1
        selection = self._selection
        lead_bytes = header.parts()[7]
        lead = ChunkLead(header, window.read(position, lead_bytes))
        if selection.may_match is not None and not selection.may_match(lead):
            return
        chunk = self._wanted_parts(window, position, lead)
        self.found.append(chunk)
        self._bytes += len(chunk)

    def _wanted_parts(self, window: _Window, position: int, lead: ChunkLead) -> bytes:
        header, without = lead.header, self._selection.without
        if without & WITHOUT_BODIES:
            return reduced(lead, b"", without)
        chunk = window.read(position, header.size)
        if not without:
            return chunk
        if not is_sound(chunk, 0, header):
            raise MalformedChunk("its checksum is wrong")
        return reduced(lead, chunk[header.parts()[7] :], without)


class _Window:
    """What was read last of a file, which mostly has what is read next."""

    def __init__(self, reader: SegmentReader, data: int, size: int) -> None:
        self._reader = reader
        self._data = data
        self._size = size
        self._start = 0
        self._bytes = b""

    def read(self, position: int, size: int) -> bytes:
        begin = position - self._start
        if begin < 0 or begin + size > len(self._bytes):
            wanted = min(max(size, WINDOW_BYTES), self._size - position)
            self._bytes = self._reader.read_bytes(self._data, position, wanted)
            self._start, begin = position, 0
            if len(self._bytes) < size:
                raise MalformedChunk("not all of it is there")
        return self._bytes[begin : begin + size]


def reduced(lead: ChunkLead, bodies: bytes, without: int) -> bytes:
    """The chunk without these parts. `bodies` has the zeros at its end; it is empty if unwanted."""
    header = lead.header
    parts = [lead.part(number) for number in range(7)]
    routes, routes_bytes = header.routes, header.routes_bytes
    blocks, blocks_bytes = header.properties, header.properties_bytes
    bodies_bytes = header.bodies_bytes
    if without & WITHOUT_BODIES:
        parts[0], bodies, bodies_bytes = bytes(len(parts[0])), b"", 0
    if without & WITHOUT_ROUTES:
        parts[1], parts[3], parts[5] = bytes(len(parts[1])), _BLANK_ENDS, bytes(padded(2))
        routes, routes_bytes = 1, len(_BLANK)
    if without & WITHOUT_PROPERTIES:
        parts[2], parts[4], parts[6] = bytes(len(parts[2])), _BLANK_ENDS, bytes(padded(2))
        blocks, blocks_bytes = 1, len(_BLANK)
    rest = b"".join((*parts, bodies))
    head = HEADER.pack(
        MAGIC, VERSION, HEADER_BYTES, header.first_offset, header.timestamp_ms, header.records,
        routes, blocks, routes_bytes, blocks_bytes, bodies_bytes, HEADER_BYTES + len(rest),
        without, crc32c(rest), 0,
    )[:SUMMED_BYTES]  # fmt: skip
    return b"".join((head, _CHECKSUM.pack(crc32c(head)), rest))
