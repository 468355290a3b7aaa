"""Readers of the source called without Spark, for tests: quick, and their bytes can be counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pika
import pyarrow as pa
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql.datasource import InputPartition

from pyspark_warren.batch_reader import WarrenBatchReader
from pyspark_warren.options import parse_source_options
from pyspark_warren.stream_reader import WarrenStreamReader

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def fill(channel: BlockingChannel, queue: str, numbers: range, size: int = 1) -> None:
    """Each is confirmed before the next is sent, so each is a chunk."""
    for number in numbers:
        channel.basic_publish("", queue, b"%d" % number * size, PERSISTENT)


def declare_stream(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})


def batch_reader(**options: str) -> WarrenBatchReader:
    return WarrenBatchReader(parse_source_options(options))


def stream_reader(**options: str) -> WarrenStreamReader:
    return WarrenStreamReader(parse_source_options(options))


def batches_of(
    reader: WarrenBatchReader | WarrenStreamReader, partitions: Sequence[InputPartition]
) -> list[pa.RecordBatch]:
    """In the order in which they come."""
    return [batch for partition in partitions for batch in reader.read(partition)]


def rows_of(reader: WarrenBatchReader) -> list[dict[str, Any]]:
    """All rows, as dictionaries."""
    return [row for batch in batches_of(reader, reader.partitions()) for row in batch.to_pylist()]


def offsets_in(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def bodies_of(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(int(row["value"]) for row in rows)
