"""Chunks, as a broker sends them, into Arrow batches: nothing is done once per record.

A chunk (warren/streams/chunk_format.py) has its bodies in one piece with an array of where each
begins, and routes and property blocks as dictionaries with a small number per record. One chunk
alone is an Arrow array as it stands. But a quiet stream has a chunk for each record or two, and a
batch for each of them would cost Spark far more than the rows. So all chunks of a fetch become one
batch:

    fetched   | head starts b0 b1 b2 | head starts b3 b4 | head starts b5 |
    bodies    | b0 b1 b2 b3 b4 b5 |        one copy for each chunk, into memory that Arrow reuses
    starts    | 0 1 2 | 3 4 | 5 |          those of each chunk, moved to where its bodies are now

So a batch has nothing of the fetched bytes, and they can make room for the next. Dictionaries are
joined, too: each distinct route or property block of a fetch is decoded once, numbers of a chunk
are turned into numbers of the fetch, and `take` makes columns. Where all records have the same,
which is how publishers are, the column is that of the last time, as long as is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from pyspark_warren.errors import MalformedAnswer
from pyspark_warren.properties import headers_column, properties_column
from pyspark_warren.schema import MOMENT, arrow_schema
from warren.storage.disk.files import Buffer
from warren.streams.chunk_format import ChunkHeader, MalformedChunk, is_sound, read_header
from warren.streams.flags import REDELIVERED
from warren.wire.route_key import split_octets

# Distinct values, and which of them each record has.
Numbered = tuple[list[bytes], pa.Array]

# Where the flags stand in a chunk's header.
_FLAGS_AT: Final = 52
# Offsets of Arrow's binary arrays have 31 bits.
FETCHED_BYTES_MAX: Final = 0x7FFF_FFFF
# So many columns are kept for the next batch; properties of a row are a hundred bytes or so.
REPEATED_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Chunk:
    """A sound chunk, where it begins in the fetched bytes, and where its parts do."""

    header: ChunkHeader
    places: tuple[int, ...]
    is_redelivered: bool


def chunks_of(data: Buffer) -> Iterator[Chunk]:
    """Raises MalformedAnswer if the bytes are anything but whole, sound chunks."""
    if len(data) > FETCHED_BYTES_MAX:
        raise MalformedAnswer(f"{len(data)} bytes of chunks are more than Arrow can hold")
    position = 0
    while position < len(data):
        try:
            header = read_header(data, position)
        except MalformedChunk as error:
            raise MalformedAnswer(f"not a chunk at byte {position}: {error}") from None
        if not is_sound(data, position, header):
            raise MalformedAnswer(f"the chunk of offset {header.first_offset} is damaged")
        flags = int.from_bytes(data[position + _FLAGS_AT : position + _FLAGS_AT + 4], "little")
        places = tuple(position + place for place in header.parts())
        yield Chunk(header, places, bool(flags & REDELIVERED))
        position += header.size


class Repeated:
    """Columns that say the same in each row: made once, as long as was ever needed."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, bytes], pa.Array] = {}

    def column(self, name: str, key: bytes, rows: int, make: Callable[[], pa.Array]) -> pa.Array:
        """`make` makes the one value; it depends on nothing but the key."""
        known = self._columns.get((name, key))
        if known is None or len(known) < rows:
            if len(self._columns) >= REPEATED_MAX:
                self._columns.clear()
            known = make().take(pa.array(np.zeros(rows, dtype=np.int32)))
            self._columns[name, key] = known
        return known.slice(0, rows)


class BatchMaker:
    """Makes batches of one queue's chunks."""

    def __init__(self, queue: str, include_headers: bool) -> None:
        self._queue = queue
        self._include_headers = include_headers
        self._schema = arrow_schema(include_headers=include_headers)
        self._repeated = Repeated()

    def batches(self, data: Buffer, span: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        batch = self.batch(data, span)
        if batch is not None:
            yield batch

    def batch(self, data: Buffer, span: tuple[int, int]) -> pa.RecordBatch | None:
        """The records of [start, end) among those fetched; None if there are none."""
        chunks = list(chunks_of(data))
        if not chunks:
            return None
        first = chunks[0].header.first_offset
        end = chunks[-1].header.end_offset
        _check_order(chunks)
        start, stop = max(span[0], first), min(span[1], end)
        if start >= stop:
            return None
        whole = self._whole(data, chunks)
        return whole.slice(start - first, stop - start)

    def _whole(self, data: Buffer, chunks: list[Chunk]) -> pa.RecordBatch:
        counts = np.array([chunk.header.records for chunk in chunks])
        rows = int(counts.sum())
        first = chunks[0].header.first_offset
        times_us = np.array([chunk.header.timestamp_ms * 1000 for chunk in chunks])
        delivered = np.array([chunk.is_redelivered for chunk in chunks])
        queue = partial(pa.array, [self._queue])
        columns = {
            "value": _bodies(data, chunks),
            "queue": self._repeated.column("queue", b"", rows, queue),
            "offset": pa.array(np.arange(first, first + rows)),
            "timestamp": pa.array(np.repeat(times_us, counts)).cast(MOMENT),
            "redelivered": pa.array(np.repeat(delivered, counts)),
        }
        routes = _joined(data, chunks, 1)
        columns["exchange"] = self._spread("exchange", routes, exchanges_column)
        columns["routing_key"] = self._spread("routing_key", routes, routing_keys_column)
        if self._include_headers:
            blocks = _joined(data, chunks, 2)
            columns["headers"] = self._spread("headers", blocks, headers_column)
            columns["properties"] = self._spread("properties", blocks, properties_column)
        return pa.record_batch([columns[name] for name in self._schema.names], schema=self._schema)

    def _spread(
        self, name: str, values: Numbered, decode: Callable[[list[bytes]], pa.Array]
    ) -> pa.Array:
        """What each record's number stands for, decoded."""
        distinct, numbers = values
        if len(distinct) == 1:
            make = partial(decode, distinct)
            return self._repeated.column(name, distinct[0], len(numbers), make)
        return decode(distinct).take(numbers)


def _check_order(chunks: list[Chunk]) -> None:
    expected = chunks[0].header.first_offset
    for chunk in chunks:
        if chunk.header.first_offset != expected:
            raise MalformedAnswer(
                f"a chunk begins at offset {chunk.header.first_offset} instead of {expected}"
            )
        expected = chunk.header.end_offset


def _bodies(data: Buffer, chunks: list[Chunk]) -> pa.BinaryArray:
    """Copied, chunk by chunk, one behind another."""
    rows = sum(chunk.header.records for chunk in chunks)
    bodies = pa.allocate_buffer(sum(chunk.header.bodies_bytes for chunk in chunks))
    target, source = np.frombuffer(bodies, np.uint8), np.frombuffer(data, np.uint8)
    starts = np.empty(rows + 1, dtype=np.int32)
    row = position = 0
    for chunk in chunks:
        count, size, at = chunk.header.records, chunk.header.bodies_bytes, chunk.places[7]
        target[position : position + size] = source[at : at + size]
        own = np.frombuffer(data, "<i4", count, chunk.places[0])
        np.add(own, position, out=starts[row : row + count])
        row, position = row + count, position + size
    starts[rows] = position
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(starts), bodies])


def _joined(data: Buffer, chunks: list[Chunk], kind: int) -> Numbered:
    """Distinct routes (kind 1) or property blocks (2) of all chunks, and each record's number."""
    known: dict[bytes, int] = {}
    numbers = []
    for chunk in chunks:
        header, places = chunk.header, chunk.places
        count = header.routes if kind == 1 else header.properties
        ends = np.frombuffer(data, "<u4", count + 1, places[2 + kind]).tolist()
        at = places[4 + kind]
        mapping = [
            known.setdefault(bytes(data[at + a : at + b]), len(known)) for a, b in pairwise(ends)
        ]
        own = np.frombuffer(data, "<u2", header.records, places[kind])
        numbers.append(np.array(mapping, dtype=np.int32)[own])
    return list(known), pa.array(np.concatenate(numbers))


def exchanges_column(routes: list[bytes]) -> pa.StringArray:
    """What is not UTF-8 is shown with marks where it is not; so it is of routing keys."""
    names = [split_octets(route)[0].decode(errors="replace") for route in routes]
    return pa.array(names, pa.string())


def routing_keys_column(routes: list[bytes]) -> pa.StringArray:
    names = [split_octets(route)[1].decode(errors="replace") for route in routes]
    return pa.array(names, pa.string())
