"""Batches of a streaming query into a lake: what `foreachBatch` calls.

The query's process holds one of these for as long as it runs: the job's own process, or with Spark
Connect a process beside the server, to which it is pickled. So it keeps nothing that was there
before the first batch, and what it has done is told by the tables (`LakeTable.rows_of`).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pyspark_warren.errors import WarrenError
from pyspark_warren.lake import MESSAGES, PARTITION_COLUMNS
from pyspark_warren.lake.data_files import WRITTEN_DDL, DataFile, WritePlan, write_files
from pyspark_warren.lake.delta import Batch, DeltaLakeTable
from pyspark_warren.lake.plain import batch_prefix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_warren.lake.opening import LakeFormat, LakeTable
    from pyspark_warren.lake.upkeep import Upkeep

# A batch may take so much of the retention: a vacuum may have another clock, or be slow itself.
BATCH_RETENTION_SHARE: Final = 0.5


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
    _tables: dict[str, LakeTable] = field(default_factory=dict)
    _columns: dict[str, pa.Schema] = field(default_factory=dict)
    _query: str = ""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Take one batch. Spark calls this for one batch at a time."""
        if not self._query:
            self._begin(rows.sparkSession)
        batch = Batch(self._query, number, self.may_go_back)
        missing = [table for table in self._tables.values() if not table.has(batch)]
        if not missing:
            return
        began = time.monotonic()
        written = self._write(rows, batch, [table.name for table in missing])
        self._check_age(batch, time.monotonic() - began)
        for table in missing:
            files = [file for file in written if file.table == table.name]
            if files:
                table.commit(batch, files)
        if self.upkeep is not None:
            self.upkeep.count_batch()

    def _begin(self, spark: SparkSession) -> None:
        for name, schema in self.schemas.items():
            self._tables[name], whole = self.lake.open(name, schema)
            columns = [column for column in whole if column.name not in PARTITION_COLUMNS]
            self._columns[name] = pa.schema(columns)
        self._query = query_id(spark, self.checkpoint)

    def _check_age(self, batch: Batch, age_s: float) -> None:
        """Refuse files that a full vacuum may take for those of a killed task and delete."""
        age_s_max = self.lake.retention_s * BATCH_RETENTION_SHARE
        if age_s > age_s_max:
            raise WarrenError(
                f"batch {batch.number} took {age_s:.0f} s to write, and files that are in no "
                f"version of the table are safe from VACUUM for {age_s_max:.0f} s. Nothing of it "
                "is in the table. Give smaller batches, or a larger --vacuum-hours"
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
        write = partial(write_files, plan=plan)
        return [DataFile(*row) for row in rows.mapInArrow(write, WRITTEN_DDL).collect()]


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
