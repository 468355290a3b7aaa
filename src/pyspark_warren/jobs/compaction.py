"""Puts the many small files of a partition together.

A lake that is filled every few seconds has thousands of files an hour, and whoever reads it opens
every one. A partition with enough small files gets one in their place, as a commit of the lake: all
the small ones go and the new one comes, or nothing changes; who reads meanwhile sees either, or
gets an error (`lake.py` says how).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.lake import TABLES, Commit, Lake
from pyspark_warren.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_warren.jobs.files import File

FILES_MIN: Final = 16
SMALL_BYTES: Final = 32 * 1_048_576
# What goes into one file; a partition with more is done in several goes.
TOGETHER_BYTES_MAX: Final = 256 * 1_048_576


def compact(
    spark: SparkSession, lake: Lake, files_min: int = FILES_MIN, watch: Watch | None = None
) -> int:
    """How many files there are fewer now."""
    fewer = 0
    for table in TABLES:
        for folder, small in _small_files(lake, table).items():
            if len(small) < max(2, files_min) or (watch and watch.is_stopping):
                continue
            _put_together(spark, lake, folder, small)
            fewer += len(small) - 1
            if watch:
                watch.say(f"{folder}: put {len(small)} files together")
    return fewer


def _small_files(lake: Lake, table: str) -> dict[str, list[File]]:
    found: dict[str, list[File]] = {}
    for file in lake.parts(table):
        if file.size < SMALL_BYTES:
            group = found.setdefault(file.path.rpartition("/")[0], [])
            if sum(other.size for other in group) < TOGETHER_BYTES_MAX:
                group.append(file)
    return found


def _put_together(spark: SparkSession, lake: Lake, folder: str, small: list[File]) -> None:
    name = f"compacted-{uuid.uuid4().hex[:12]}"
    staging = lake.stage(name)
    paths = [lake.files.whole(file.path) for file in small]
    # The newest file's columns may be more than the oldest one's.
    together = spark.read.option("mergeSchema", "true").parquet(*paths).coalesce(1)
    together.write.option("compression", "zstd").parquet(lake.files.whole(f"{staging}/{folder}"))
    removals = [file.path for file in small]
    lake.commit(Commit(name, "", staging, {}, removals))
