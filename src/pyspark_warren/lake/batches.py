"""Batches of a streaming query into a lake: what `foreachBatch` calls.

The query's process holds one of these for as long as it runs: the job's own process, or with Spark
Connect a process beside the server, to which it is pickled. So it keeps nothing that was there
before the first batch, and what it has done is told by the tables (`LakeTable.rows_of`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import MESSAGES, PARTITION_COLUMNS
from pyspark_warren.lake.data_files import WRITTEN_DDL, DataFile, WritePlan, write_files
from pyspark_warren.lake.delta import Batch, DeltaLakeTable
from pyspark_warren.lake.plain import batch_prefix
from pyspark_warren.span_source import records_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_warren.lake.opening import LakeFormat, LakeTable
    from pyspark_warren.lake.upkeep import Upkeep
    from pyspark_warren.reading import PartitionReader


# Of the retention, a batch may take this much. The rest is for clocks that differ.
AGE_SHARE_MAX: Final = 0.5


class LakeBehind(WarrenError):
    """The lake lacks batches that its checkpoint counts as done."""


@dataclass
class BatchWriter:
    """Writes each batch into both tables, each once."""

    lake: LakeFormat
    schemas: dict[str, pa.Schema]
    """Columns of the rows, by table."""
    checkpoint: str
    compression: str = "zstd"
    may_go_back: bool = False
    upkeep: Upkeep | None = None
    reader: PartitionReader | None = None
    """Reads what the rows say, if they are spans of offsets and not records."""
    _tables: dict[str, LakeTable] = field(default_factory=dict)
    _columns: dict[str, pa.Schema] = field(default_factory=dict)
    _query: str = ""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Take one batch. Spark calls this for one batch at a time."""
        with self.lake.storage.explained():
            self._take(rows, number)

    def _take(self, rows: DataFrame, number: int) -> None:
        if not self._query:
            self._begin(rows.sparkSession)
        batch = Batch(self._query, number, self.may_go_back)
        missing = [table for table in self._tables.values() if not table.has(batch)]
        if not missing:
            return
        self._check_order(batch)
        begun = time.time()
        written = self._write(rows, batch, [table.name for table in missing])
        self._check_age(number, time.time() - begun)
        for table in missing:
            files = [file for file in written if file.table == table.name]
            # Of messages every batch is committed, so that none can be missed.
            if files or table.name == MESSAGES:
                table.commit(batch, files)
        if self.upkeep is not None:
            self.upkeep.count_batch()

    def _begin(self, spark: SparkSession) -> None:
        for name, schema in self.schemas.items():
            self._tables[name], whole = self.lake.open(name, schema)
            columns = [column for column in whole if column.name not in PARTITION_COLUMNS]
            self._columns[name] = pa.schema(columns)
        self._query = query_id(spark, self.checkpoint)

    def _check_order(self, batch: Batch) -> None:
        """Refuse a batch if the lake lacks the one before: it would never come."""
        newest = self._tables[MESSAGES].newest_batch(batch.query)
        if batch.number > (0 if newest is None else newest + 1):
            has = "none of them" if newest is None else f"those up to {newest}"
            raise LakeBehind(
                f"{self.checkpoint} says that {batch.number} batches are in the lake, and "
                f"{self.lake.storage.url}/{MESSAGES} has {has}: it was deleted or restored, or is "
                "another lake. Give it another checkpoint, which begins where the lake ends"
            )

    def _check_age(self, number: int, age_s: float) -> None:
        """Refuse a batch whose files a vacuum may have deleted: no version had them yet."""
        if self.lake.table_format == "delta" and age_s > self.lake.retention_s * AGE_SHARE_MAX:
            raise WarrenError(
                f"batch {number} took {age_s:.0f} s to write, and files without a version are kept "
                f"for {self.lake.retention_s:.0f} s: nothing of it was committed. Give a "
                "greater --vacuum-hours or smaller batches (--bytes-max)"
            )

    def _write(self, rows: DataFrame, batch: Batch, tables: list[str]) -> list[DataFile]:
        is_plain = not isinstance(self._tables[MESSAGES], DeltaLakeTable)
        plan = WritePlan(
            self.lake.storage,
            {name: self._columns[name] for name in tables},
            batch_prefix(batch),
            self.compression,
            is_repeatable=is_plain,
        )
        write = partial(_write_rows, plan=plan, reader=self.reader)
        return [DataFile(*row) for row in rows.mapInArrow(write, WRITTEN_DDL).collect()]


def _write_rows(
    rows: Iterator[pa.RecordBatch], plan: WritePlan, reader: PartitionReader | None
) -> Iterator[pa.RecordBatch]:
    """Write one task's part of a batch; for `mapInArrow`."""
    return write_files(rows if reader is None else records_of(rows, reader), plan)


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id that Spark has given the query with this checkpoint, for good.

    Raises
    ------
    WarrenError
        If there is no such checkpoint yet.
    """
    for row in spark.read.text(f"{checkpoint}/metadata").collect():
        return str(json.loads(row["value"])["id"])
    raise WarrenError(f"{checkpoint}/metadata is empty: it should have the id of the query")
