"""Fetched chunks: where their parts are, and which of all distinct values each record has.

Distinct routes and property blocks of all chunks of a fetch are joined, so that each is decoded
once, and the numbers that a chunk has for them become numbers of the fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyspark_warren.errors import MalformedAnswer
from warren.storage.disk.files import Buffer
from warren.streams.chunk_format import ChunkHeader, MalformedChunk, is_sound, read_header
from warren.streams.flags import REDELIVERED

# Distinct values, and which of them each record has.
Numbered = tuple[list[bytes], NDArray[np.int32]]

# Where the flags stand in a chunk's header.
_FLAGS_AT: Final = 52
# Offsets of Arrow's binary arrays have 31 bits.
FETCHED_BYTES_MAX: Final = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class Chunk:
    """A sound chunk, where it begins in the fetched bytes, and where its parts do."""

    header: ChunkHeader
    places: tuple[int, ...]
    is_redelivered: bool


def chunks_of(data: Buffer, *, are_bodies_read: bool = True) -> Iterator[Chunk]:
    """Raises MalformedAnswer if the bytes are anything but whole, sound chunks.

    Of chunks whose bodies are not read, files are not read that far: only the header is looked at.
    """
    if len(data) > FETCHED_BYTES_MAX:
        raise MalformedAnswer(f"{len(data)} bytes of chunks are more than Arrow can hold")
    position = 0
    while position < len(data):
        try:
            header = read_header(data, position)
        except MalformedChunk as error:
            raise MalformedAnswer(f"not a chunk at byte {position}: {error}") from None
        is_whole = position + header.size <= len(data)
        if not (is_sound(data, position, header) if are_bodies_read else is_whole):
            raise MalformedAnswer(f"the chunk of offset {header.first_offset} is damaged")
        flags = int.from_bytes(data[position + _FLAGS_AT : position + _FLAGS_AT + 4], "little")
        places = tuple(position + place for place in header.parts())
        yield Chunk(header, places, bool(flags & REDELIVERED))
        position += header.size


class Fetched:
    """Chunks that follow each other, with gaps where others were left out."""

    def __init__(self, data: Buffer, chunks: list[Chunk]) -> None:
        self.data = data
        self.chunks = chunks
        self._counts = np.array([chunk.header.records for chunk in chunks])
        self.rows = int(self._counts.sum())

    @cached_property
    def routes(self) -> Numbered:
        return self._joined(1)

    @cached_property
    def blocks(self) -> Numbered:
        """Property blocks."""
        return self._joined(2)

    @property
    def _has_gaps(self) -> bool:
        first, last = self.chunks[0].header, self.chunks[-1].header
        return last.end_offset - first.first_offset != self.rows

    def offsets(self) -> NDArray[np.int64]:
        first = self.chunks[0].header.first_offset
        if not self._has_gaps:
            return np.arange(first, first + self.rows)
        ends = np.cumsum(self._counts)
        firsts = np.array([chunk.header.first_offset for chunk in self.chunks])
        before: NDArray[np.int64] = np.repeat(firsts - (ends - self._counts), self._counts)
        return np.arange(self.rows) + before

    def rows_of(self, span: tuple[int, int]) -> tuple[int, int]:
        """The first row that is in a span of offsets, and the first one behind it."""
        if self._has_gaps:
            start, stop = np.searchsorted(self.offsets(), span)
            return int(start), int(stop)
        first = self.chunks[0].header.first_offset
        return max(0, span[0] - first), min(self.rows, span[1] - first)

    def spread(self, values: Sequence[Any]) -> NDArray[Any]:
        """A value of each chunk, for each of its records."""
        return np.repeat(np.array(values), self._counts)

    def _joined(self, kind: int) -> Numbered:
        """Distinct routes (kind 1) or property blocks (2) of all chunks, and records' numbers."""
        known: dict[bytes, int] = {}
        numbers = []
        for chunk in self.chunks:
            header, places = chunk.header, chunk.places
            count = header.routes if kind == 1 else header.properties
            ends = np.frombuffer(self.data, "<u4", count + 1, places[2 + kind]).tolist()
            at = places[4 + kind]
            mapping = [
                known.setdefault(bytes(self.data[at + a : at + b]), len(known))
                for a, b in pairwise(ends)
            ]
            own = np.frombuffer(self.data, "<u2", header.records, places[kind])
            if int(own.max()) >= count:
                raise MalformedAnswer(f"the chunk of offset {header.first_offset} is damaged")
            numbers.append(np.array(mapping, dtype=np.int32)[own])
        return list(known), np.concatenate(numbers)
