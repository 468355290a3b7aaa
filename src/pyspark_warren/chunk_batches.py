"""Chunks, as a broker sends them, into Arrow batches: nothing is done once per record.

A chunk (warren/streams/chunk_format.py) has its bodies in one piece with an array of where each
begins, and routes and property blocks as dictionaries with a small number per record. One chunk
alone is an Arrow array as it stands. But a quiet stream has a chunk for each record or two, and a
batch for each of them would cost Spark far more than the rows. So all chunks of a fetch become one
batch:

    fetched   | head | b0 b1 b2 | head | b3 b4 | head | b5 |
    starts           0  1  2  3        4  5  6        7  8     one array over all fetched bytes
    element            0  1  2  (3)      4  5  (6)      7      those that reach over a head ...
    take             0  1  2           4  5           7        ... are left out

The starts of all chunks, moved to where their bodies are, are the offsets of one binary array over
the fetched bytes. At the end of each chunk it has an element that is no body but what lies between
two chunks; `take` of the others makes a clean array, which is the only copy. With one chunk there
is no such element, and no copy.

Dictionaries are joined the same way: each distinct route or property block of a fetch is decoded
once, numbers of a chunk are turned into numbers of the fetch, and `take` makes columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyspark_warren.errors import MalformedAnswer
from pyspark_warren.properties import headers_column, properties_column
from pyspark_warren.schema import MOMENT, arrow_schema
from warren.storage.disk import Buffer
from warren.streams.chunk_format import ChunkHeader, MalformedChunk, is_sound, read_header
from warren.streams.flags import REDELIVERED
from warren.wire.route_key import split_octets

Numbers = NDArray[np.int32]

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


@dataclass(frozen=True, slots=True)
class BatchMaker:
    """Makes batches of one queue's chunks."""

    queue: str
    include_headers: bool

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
        routes, route_numbers = _joined(data, chunks, 1)
        exchanges, keys = _named(routes)
        columns = {
            "value": _bodies(data, chunks),
            "queue": pa.repeat(pa.scalar(self.queue), rows),
            "offset": pa.array(np.arange(first, first + rows)),
            "timestamp": pa.array(np.repeat(times_us, counts)).cast(MOMENT),
            "exchange": exchanges.take(route_numbers),
            "routing_key": keys.take(route_numbers),
            "redelivered": pa.array(np.repeat(delivered, counts)),
        }
        if self.include_headers:
            blocks, block_numbers = _joined(data, chunks, 2)
            columns["headers"] = headers_column(blocks).take(block_numbers)
            columns["properties"] = properties_column(blocks).take(block_numbers)
        schema = arrow_schema(include_headers=self.include_headers)
        return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def _check_order(chunks: list[Chunk]) -> None:
    expected = chunks[0].header.first_offset
    for chunk in chunks:
        if chunk.header.first_offset != expected:
            raise MalformedAnswer(
                f"a chunk begins at offset {chunk.header.first_offset} instead of {expected}"
            )
        expected = chunk.header.end_offset


def _bodies(data: Buffer, chunks: list[Chunk]) -> pa.BinaryArray:
    starts = [
        np.frombuffer(data, "<u4", chunk.header.records + 1, chunk.places[0]).astype(np.int32)
        + np.int32(chunk.places[7])
        for chunk in chunks
    ]
    ends = np.cumsum([len(part) for part in starts])
    joined = np.concatenate(starts)
    buffers = [None, pa.py_buffer(joined), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.binary(), len(joined) - 1, buffers)
    if len(chunks) == 1:
        return array
    is_body = np.ones(len(joined) - 1, dtype=bool)
    is_body[ends[:-1] - 1] = False
    return array.take(pa.array(np.flatnonzero(is_body)))


def _joined(data: Buffer, chunks: list[Chunk], kind: int) -> tuple[list[bytes], pa.Array]:
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


def _named(routes: list[bytes]) -> tuple[pa.StringArray, pa.StringArray]:
    """Exchanges and routing keys. What is not UTF-8 is shown with marks where it is not."""
    pairs = [split_octets(route) for route in routes]
    return (
        pa.array([exchange.decode(errors="replace") for exchange, _ in pairs], pa.string()),
        pa.array([key.decode(errors="replace") for _, key in pairs], pa.string()),
    )
