"""Rows of a lake as a DataFrame: chosen files, read by Spark's tasks with pyarrow.

Spark reads Delta tables only where it has Delta's connector. So the driver lists the files of one
version, and each task opens those that it is given, by the same file system and with the same
credentials as those that wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_warren.lake import HOUR, PARTITION_COLUMNS, QUEUE
from pyspark_warren.lake.data_files import fitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_warren.lake.storage import Storage

ROWS_PER_BATCH: Final = 10_000
_OFFSET: Final = "offset"


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a file with offsets in a range."""

    path: str
    queue: str
    hour: str
    first: int
    end: int
    """The first offset that is not in it."""


_SLICE_DDL: Final = "path STRING, queue STRING, hour STRING, first BIGINT, `end` BIGINT"


def read_slices(
    spark: SparkSession, table: Storage, schema: pa.Schema, slices: Sequence[Slice], tasks: int
) -> DataFrame:
    """Return the rows with these columns, which may be fewer than those of the table."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = spark.createDataFrame([astuple(each) for each in slices], _SLICE_DDL)
    spread = rows.repartition(max(1, min(tasks, len(slices))))
    read = partial(_read, table=table, schema=schema)
    return spread.mapInArrow(read, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _read(
    batches: Iterator[pa.RecordBatch], table: Storage, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read the slices of one task; for `mapInArrow`."""
    filesystem, root = table.open()
    for batch in batches:
        for row in batch.to_pylist():
            part = Slice(**row)
            with filesystem.open_input_file(f"{root}/{part.path}") as file:
                yield from _rows_of(pq.ParquetFile(file), part, schema)


def _rows_of(file: pq.ParquetFile, part: Slice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    wanted = [name for name in schema.names if name in file.schema_arrow.names]
    groups = [
        number for number in range(file.num_row_groups) if _has_offsets(file.metadata, number, part)
    ]
    columns = list(dict.fromkeys([*wanted, _OFFSET]))
    for rows in file.iter_batches(ROWS_PER_BATCH, row_groups=groups, columns=columns):
        offsets = rows.column(rows.schema.get_field_index(_OFFSET))
        is_in = pc.and_(pc.greater_equal(offsets, part.first), pc.less(offsets, part.end))
        chosen = rows.filter(is_in)
        if chosen.num_rows:
            yield fitted(_with_partition(chosen, part), schema)


def _has_offsets(footer: pq.FileMetaData, group: int, part: Slice) -> bool:
    found = footer.row_group(group)
    for number in range(found.num_columns):
        column = found.column(number)
        if column.path_in_schema == _OFFSET:
            known = column.statistics
            if known is None or not known.has_min_max:
                return True
            return bool(known.max >= part.first and known.min < part.end)
    return True


def _with_partition(rows: pa.RecordBatch, part: Slice) -> pa.RecordBatch:
    """Add the columns that files lack, since all of their rows have the same there."""
    values = {QUEUE: part.queue, HOUR: part.hour}
    arrays, fields = list(rows.columns), list(rows.schema)
    for name in PARTITION_COLUMNS:
        arrays.append(pa.repeat(pa.scalar(values[name], pa.string()), rows.num_rows))
        fields.append(pa.field(name, pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
