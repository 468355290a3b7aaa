"""Spans of offsets in place of records: what Spark gets, and what a task makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_warren.errors import InvalidOption
from pyspark_warren.reading import SpanPartition
from pyspark_warren.span_source import SpanDataSource, SpanStreamReader, records_of

HTTP = {"url": "http://127.0.0.1:1", "queue": "orders"}


def span_rows(partition: InputPartition) -> list[dict[str, Any]]:
    reader = SpanStreamReader.__new__(SpanStreamReader)  # its rows need no connection
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


def test_a_partition_is_one_row_and_none_is_none() -> None:
    assert span_rows(SpanPartition("a b/c", 5, 9)) == [{"queue": "a b/c", "start": 5, "end": 9}]
    assert span_rows(InputPartition(None)) == []


def test_rows_have_the_schema_that_spark_is_told() -> None:
    told = SpanDataSource(HTTP).schema()
    (batch,) = SpanStreamReader.__new__(SpanStreamReader).read(SpanPartition("q", 0, 1))
    assert batch.schema.names == told.names


def test_a_task_reads_the_records_of_its_spans_in_their_order() -> None:
    def read(partition: SpanPartition) -> Iterator[pa.RecordBatch]:
        offsets = list(range(*partition.span))
        yield pa.RecordBatch.from_pydict({"queue": [partition.queue] * len(offsets), "o": offsets})

    spans = [
        batch
        for place in (("a", 0, 2), ("b", 7, 9))
        for batch in SpanStreamReader.__new__(SpanStreamReader).read(SpanPartition(*place))
    ]
    reader = cast("Any", SimpleNamespace(read=read))
    found = [tuple(row.values()) for b in records_of(iter(spans), reader) for row in b.to_pylist()]
    assert found == [("a", 0), ("a", 1), ("b", 7), ("b", 8)]


def test_spans_are_for_streams_only() -> None:
    source = SpanDataSource(HTTP)
    with pytest.raises(InvalidOption, match="is for readStream"):
        source.reader(source.schema())
