"""Lakes without Spark: batches of rows that are written as tasks write them, and committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pyspark_warren.lake import HOUR, MESSAGES, PARTITION_COLUMNS, REASON
from pyspark_warren.lake.data_files import DataFile, WritePlan, write_files
from pyspark_warren.lake.delta import Batch, DeltaLakeTable
from pyspark_warren.lake.plain import PlainTable, batch_prefix
from pyspark_warren.lake.storage import Storage

QUERY: Final = "4dc2cd9c-0000-4000-8000-000000000000"
START: Final = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
SCHEMA: Final = pa.schema(
    [
        ("value", pa.binary()),
        ("queue", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("routing_key", pa.string()),
        ("body", pa.struct([("id", pa.int64())])),
        (HOUR, pa.string()),
    ]
)


def row_of(offset: int, queue: str = "q") -> dict[str, Any]:
    """Return a row; a thousand of them fill an hour."""
    return {
        "value": b"%d" % offset,
        "queue": queue,
        "offset": offset,
        "timestamp": START + timedelta(seconds=3.6 * offset),
        "routing_key": f"key.{offset % 3}",
        "body": {"id": offset},
        REASON: None,
    }


def write(
    storage: Storage,
    rows: list[dict[str, Any]],
    batch: Batch,
    schema: pa.Schema = SCHEMA,
    *,
    is_plain: bool = False,
    codec: str = "zstd",
) -> list[DataFile]:
    """Write rows of the table `messages` as one task does."""
    came = pa.schema([*(c for c in schema if c.name != HOUR), (REASON, pa.string())])
    kept = pa.schema([column for column in schema if column.name not in PARTITION_COLUMNS])
    plan = WritePlan(storage, {MESSAGES: kept}, batch_prefix(batch), codec, is_repeatable=is_plain)
    (written,) = write_files(iter([pa.RecordBatch.from_pylist(rows, schema=came)]), plan)
    return [DataFile(**row) for row in written.to_pylist()]


def take(
    table: DeltaLakeTable | PlainTable,
    storage: Storage,
    number: int,
    rows: list[dict[str, Any]],
    codec: str = "zstd",
) -> bool:
    """Do what the job does with a batch; return False if the table has it already."""
    batch = Batch(QUERY, number)
    if table.has(batch):
        return False
    is_plain = isinstance(table, PlainTable)
    table.commit(batch, write(storage, rows, batch, is_plain=is_plain, codec=codec))
    return True


def new_table(root: Path, retention_s: float = 3_600.0) -> tuple[DeltaLakeTable, Storage]:
    storage = Storage.of(str(root))
    return DeltaLakeTable.create(storage, MESSAGES, SCHEMA, retention_s), storage


def rows_of(offsets: range, queue: str = "q") -> list[dict[str, Any]]:
    return [row_of(offset, queue) for offset in offsets]
