"""Counts of a lake's rows by delta-rs, DuckDB, polars and Spark; as a program, by Spark alone.

Each opens the table anew, as it is now. `rows` equals `offsets` if each row is there once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline_chaos.job_process import JAVA
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.delta import DeltaLakeTable
from pyspark_warren.lake.reading import Slice, read_slices
from pyspark_warren.lake.storage import Storage
from pyspark_warren.session import local_session


class Count(NamedTuple):
    rows: int
    offsets: int
    """Different ones."""


def by_delta_rs(lake: str) -> Count:
    offsets = DeltaTable(f"{lake}/{MESSAGES}").to_pyarrow_table(columns=["offset"])["offset"]
    return Count(len(offsets), len(offsets.unique()))


def by_duckdb(lake: str) -> Count:
    """By the data set that delta-rs gives it: its own extension would be downloaded."""
    messages = DeltaTable(f"{lake}/{MESSAGES}").to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("messages", messages)
        found = connection.execute('SELECT count(*), count(DISTINCT "offset") FROM messages')
        row = found.fetchone()
    assert row is not None, "a count has one row"
    return Count(*row)


def by_polars(lake: str) -> Count:
    rows = pl.scan_delta(DeltaTable(f"{lake}/{MESSAGES}"))
    offset = pl.col("offset")
    found = rows.select(pl.len().alias("rows"), offset.n_unique().alias("offsets")).collect()
    return Count(*found.row(0))


ENGINES: Final[dict[str, Callable[[str], Count]]] = {
    "delta-rs": by_delta_rs,
    "DuckDB": by_duckdb,
    "polars": by_polars,
}


def by_spark(lake: str, spark: SparkSession) -> Count:
    """By Spark's tasks: it has no connector of Delta's here, so delta-rs lists the files."""
    table = DeltaLakeTable.open(Storage.of(lake), MESSAGES)
    assert table is not None, "there is a table"
    slices = [
        Slice(file.path, file.queue, file.hour, file.first_offset, file.last_offset + 1)
        for file in table.files()
    ]
    schema = table.schema
    wanted = schema.field("offset")
    rows = read_slices(spark, Storage.of(lake).below(MESSAGES), pa.schema([wanted]), slices, 2)
    return Count(rows.count(), rows.distinct().count())


def counts_of(lake: str) -> dict[str, Count]:
    """Count by every engine; Spark in a process of its own, which finds an object store, too."""
    found = {name: count(lake) for name, count in ENGINES.items()}
    command = [sys.executable, "-m", "pipeline_chaos.lake_counts", lake]
    ended = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        check=True,
        stdout=subprocess.PIPE,
        env={**JAVA, **os.environ},
    )
    return {**found, "Spark": Count(*json.loads(ended.stdout))}


def main() -> None:
    spark = local_session("counting")
    print(json.dumps(by_spark(sys.argv[1], spark)))
    spark.stop()


if __name__ == "__main__":
    main()
