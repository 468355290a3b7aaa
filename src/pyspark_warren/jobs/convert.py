"""`warren pipeline convert`: a lake of the layout before Delta becomes one of Delta tables.

The files are written anew, since Spark wrote their timestamps in a form without statistics that
some readers of Delta take for another type. Both tables are committed as the newest batch that the
lake has, of the query that brought it: the next `ingest` goes on with the same checkpoint, and no
batch comes again. Then the old files are deleted.

Killed in between, it is run again: a table that is committed is not written twice, and old files
are deleted only when Delta has as many rows as they had.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.errors import InvalidOption, WarrenError
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import patiently
from pyspark_warren.jobs.watching import Watch
from pyspark_warren.lake import HOUR, PARTITION_COLUMNS, REASON, TABLES
from pyspark_warren.lake.data_files import WRITTEN_DDL, DataFile, WritePlan, write_files
from pyspark_warren.lake.delta import Batch, DeltaLakeTable
from pyspark_warren.lake.old_layout import OldBatch, OldLayout
from pyspark_warren.lake.schemas import table_schema
from pyspark_warren.lake.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A queue named 7 is a text, too.
_INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """A lake: its place, and how its files are written."""

    lake: Annotated[
        str, Parameter(metavar="PATH", help="A lake of an earlier version; let its job be stopped.")
    ]
    compression: Annotated[
        Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"],
        Parameter(help="Compression of the Parquet files."),
    ] = "zstd"

    def check(self) -> None:
        """Raises InvalidOption for a place that no lake can be in."""
        Storage.of(self.lake)


@dataclass
class Converted:
    """Rows of each table, as they are now."""

    rows: dict[str, int] = field(default_factory=dict)


def convert(spark: SparkSession, options: ConvertOptions, watch: Watch | None = None) -> Converted:
    """Make Delta tables of a lake's files.

    Raises
    ------
    InvalidOption
        If it is no lake of the old layout.
    WarrenError
        If the tables do not have as many rows as the files: then nothing is deleted.
    """
    return _Conversion(spark, options, watch or Watch()).run()


class _Conversion:
    def __init__(self, spark: SparkSession, options: ConvertOptions, watch: Watch) -> None:
        self._spark = spark
        self._options = options
        self._watch = watch
        self._storage = Storage.of(options.lake)
        self._old = OldLayout(self._storage)

    def run(self) -> Converted:
        if not self._old.is_there:
            raise InvalidOption(
                f"option lake: {self._options.lake} has no _commits: there is no lake, or it has "
                "been converted already"
            )
        newest = self._old.finish_commits()
        if newest is None:
            raise InvalidOption(
                f"option lake: {self._options.lake} has no batch yet; delete it and begin anew"
            )
        done = Converted()
        removed: list[str] = []
        for name in TABLES:
            files = self._files_before_delta(name)
            if files:
                done.rows[name] = self._convert(name, files, newest)
                removed += files
        self._old.remove(removed)
        return done

    def _files_before_delta(self, name: str) -> list[str]:
        """Return the files that no version of the Delta table has."""
        table = DeltaLakeTable.open(self._storage, name)
        known = set() if table is None else {f"{name}/{file.path}" for file in table.files()}
        return [path for path in self._old.files(name) if path not in known and _is_old(path)]

    def _convert(self, name: str, files: list[str], newest: OldBatch) -> int:
        with _texts_for_partitions(self._spark):
            rows = self._read(name, files)
            columns = table_schema(rows.drop(HOUR).schema)
            columns = pa.schema([c for c in columns if name != "messages" or c.name != REASON])
            table = DeltaLakeTable.open(self._storage, name)
            if table is None:
                table = DeltaLakeTable.create(self._storage, name, columns)
            batch = Batch(newest.query, newest.number)
            if not table.has(batch):
                table.commit(batch, patiently(lambda: self._write(rows, name, columns)))
            expected = rows.count()
        found = sum(file.rows for file in table.files())
        if found < expected:
            raise WarrenError(
                f"{self._storage.url}/{name}: the Delta table has {found} rows and the files have "
                f"{expected}. Nothing was deleted; remove {name}/_delta_log and convert again"
            )
        self._watch.say(f"{name}: {found} rows")
        return found

    def _read(self, name: str, files: list[str]) -> DataFrame:
        root = self._storage.url
        # The newest file's columns may be more than the oldest one's.
        reader = self._spark.read.option("mergeSchema", "true")
        rows = reader.option("basePath", f"{root}/{name}").parquet(*(f"{root}/{f}" for f in files))
        if REASON not in rows.columns:
            rows = rows.withColumn(REASON, F.lit(None).cast("string"))
        return rows

    def _write(self, rows: DataFrame, name: str, columns: pa.Schema) -> list[DataFile]:
        kept = pa.schema([column for column in columns if column.name not in PARTITION_COLUMNS])
        plan = WritePlan(self._storage, {name: kept}, _PREFIX, self._options.compression)
        write = partial(write_files, plan=plan)
        return [DataFile(*row) for row in rows.drop(HOUR).mapInArrow(write, WRITTEN_DDL).collect()]


_PREFIX: Final = "converted"


def _is_old(path: str) -> bool:
    """Return False for what an earlier try of a conversion has left; vacuum deletes that."""
    return not path.rpartition("/")[2].startswith(f"{_PREFIX}-")


@contextmanager
def _texts_for_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(_INFERENCE)
    spark.conf.set(_INFERENCE, "false")
    try:
        yield
    finally:
        spark.conf.set(_INFERENCE, str(before))
