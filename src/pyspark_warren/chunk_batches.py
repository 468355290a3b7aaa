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

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from pyspark_warren.errors import MalformedAnswer
from pyspark_warren.fetched import Chunk, Fetched, Numbered, chunks_of
from pyspark_warren.properties import headers_column, properties_column
from pyspark_warren.row_filter import RowFilter
from pyspark_warren.row_tests import RowTests, names_of
from pyspark_warren.schema import COLUMN_NAMES, MOMENT, PROPERTY_NAMES, arrow_schema
from warren.storage.disk.files import Buffer

EVERY_ROW: Final = RowFilter()
# So many columns are kept for the next batch; properties of a row are a hundred bytes or so.
REPEATED_MAX: Final = 64


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
    """Makes batches of one queue's chunks, with the columns that are wanted and no others."""

    def __init__(
        self,
        queue: str,
        columns: Sequence[str] = COLUMN_NAMES,
        property_names: Sequence[str] = PROPERTY_NAMES,
        row_filter: RowFilter = EVERY_ROW,
    ) -> None:
        self._queue = queue
        self._schema = arrow_schema(columns=columns, property_names=property_names)
        self._property_names = property_names
        self._tests = None if row_filter.is_all else RowTests(row_filter)
        self._repeated = Repeated()

    def batches(self, data: Buffer, span: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        batch = self.batch(data, span)
        if batch is not None:
            yield batch

    def batch(self, data: Buffer, span: tuple[int, int]) -> pa.RecordBatch | None:
        """The records of [start, end) among those fetched; None if there are none."""
        chunks = list(chunks_of(data, are_bodies_read="value" in self._schema.names))
        if not chunks:
            return None
        _check_order(chunks, may_have_gaps=self._tests is not None)
        fetched = Fetched(data, chunks)
        start, stop = fetched.rows_of(span)
        if start >= stop:
            return None
        batch = self._whole(fetched)
        if self._tests is None:
            return batch.slice(start, stop - start)
        wanted = self._tests.wanted(fetched)
        wanted[:start] = wanted[stop:] = False
        return batch.filter(pa.array(wanted)) if wanted.any() else None

    def _whole(self, fetched: Fetched) -> pa.RecordBatch:
        columns = [self._column(name, fetched) for name in self._schema.names]
        return pa.record_batch(columns, schema=self._schema)

    def _column(self, name: str, fetched: Fetched) -> pa.Array:
        match name:
            case "value":
                return _bodies(fetched.data, fetched.chunks)
            case "queue":
                make = partial(pa.array, [self._queue])
                return self._repeated.column(name, b"", fetched.rows, make)
            case "offset":
                return pa.array(fetched.offsets())
            case "timestamp":
                times_us = [chunk.header.timestamp_ms * 1000 for chunk in fetched.chunks]
                return pa.array(fetched.spread(times_us)).cast(MOMENT)
            case "redelivered":
                return self._redelivered(fetched)
            case "exchange":
                return self._spread(name, fetched.routes, exchanges_column)
            case "routing_key":
                return self._spread(name, fetched.routes, routing_keys_column)
            case "headers":
                return self._spread(name, fetched.blocks, headers_column)
        names = self._property_names
        return self._spread(name, fetched.blocks, lambda blocks: properties_column(blocks, names))

    def _redelivered(self, fetched: Fetched) -> pa.Array:
        told = [chunk.is_redelivered for chunk in fetched.chunks]
        if any(told):
            return pa.array(fetched.spread(told))
        return self._repeated.column("redelivered", b"", fetched.rows, partial(pa.array, [False]))

    def _spread(
        self, name: str, values: Numbered, decode: Callable[[list[bytes]], pa.Array]
    ) -> pa.Array:
        """What each record's number stands for, decoded."""
        distinct, numbers = values
        if len(distinct) == 1:
            make = partial(decode, distinct)
            return self._repeated.column(name, distinct[0], len(numbers), make)
        return decode(distinct).take(pa.array(numbers))


def _check_order(chunks: list[Chunk], *, may_have_gaps: bool) -> None:
    expected = chunks[0].header.first_offset
    for chunk in chunks:
        first = chunk.header.first_offset
        if first != expected and not (may_have_gaps and first > expected):
            raise MalformedAnswer(f"a chunk begins at offset {first} instead of {expected}")
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


def exchanges_column(routes: list[bytes]) -> pa.StringArray:
    """What is not UTF-8 is shown with marks where it is not; so it is of routing keys."""
    return pa.array([names_of(route)[0] for route in routes], pa.string())


def routing_keys_column(routes: list[bytes]) -> pa.StringArray:
    return pa.array([names_of(route)[1] for route in routes], pa.string())
