"""The lake of `warren pipeline ingest`: batches get in once, whatever moment a process ends at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_warren.jobs.compaction import compact
from pyspark_warren.jobs.files import Files
from pyspark_warren.jobs.lake import GUARD, MESSAGES, Commit, ForeignLake, Lake, batch_name

QUERY = "a query"
FOLDER = "queue=a%3Ab/hour=2026-08-01-12"


class Killed(Exception):
    """The process ends here."""


class MortalFiles(Files):
    """Does so many changes, and then nothing any more."""

    left = 1_000

    def _live(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def write(self, path: str, text: str) -> None:
        self._live()
        super().write(path, text)

    def move(self, source: str, target: str) -> None:
        self._live()
        super().move(source, target)

    def delete(self, path: str) -> None:
        self._live()
        super().delete(path)


def mortal_lake(spark: SparkSession, root: Path, changes: int) -> Lake:
    lake = Lake(spark, str(root))
    lake.files = MortalFiles(spark, str(root))
    lake.files.left = changes
    return lake


def write(path: Path, numbers: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"offset": numbers}), path)


def take(lake: Lake, root: Path, batch: int) -> None:
    """What the job does with a batch of four rows, in two files."""
    if lake.has_batch(QUERY, batch):
        return
    staging = lake.stage(batch_name(batch))
    for part in range(2):
        first = 4 * batch + 2 * part
        write(root / staging / MESSAGES / FOLDER / f"part-{part}.parquet", [first, first + 1])
    lake.commit(Commit(batch_name(batch), QUERY, staging, {MESSAGES: 4}))


def offsets(root: Path) -> Counter[int]:
    """As read by somebody who knows nothing of commits."""
    files = (root / MESSAGES).rglob("*.parquet")
    return Counter(n for file in files for n in pq.ParquetFile(file).read()["offset"].to_pylist())


def test_a_batch_is_in_the_lake_once_whenever_the_process_was_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After each number of changes on the disk in turn, until there was no need to kill it."""
    for changes in range(100):
        root = tmp_path / str(changes)
        take(Lake(spark, str(root)), root, 0)
        try:
            take(mortal_lake(spark, root, changes), root, 1)
        except Killed:
            assert max(offsets(root).values()) == 1, "something was there twice for a moment"
        else:
            assert changes > 3, "there is something to be killed at"
            break
        back = Lake(spark, str(root))
        back.recover()
        take(back, root, 1)
        assert offsets(root) == Counter(range(8))
        assert not list((root / "_staging").glob("*"))


def put_together(lake: Lake, root: Path) -> None:
    """What a compaction does, but for Spark's part in it."""
    staging = lake.stage("compacted-x")
    write(root / staging / MESSAGES / FOLDER / "part-0.parquet", list(range(8)))
    removals = [part.path for part in lake.parts(MESSAGES)]
    lake.commit(Commit("compacted-x", "", staging, {}, removals))


def test_who_reads_while_files_are_put_together_gets_each_row_once_or_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After each change on the disk; and when all that was killed is back, rows only."""
    refused = 0
    for changes in range(100):
        root = tmp_path / str(changes)
        for batch in range(2):
            take(Lake(spark, str(root)), root, batch)
        try:
            put_together(mortal_lake(spark, root, changes), root)
        except Killed:
            try:
                assert offsets(root) == Counter(range(8))
            except pa.ArrowInvalid:
                refused += 1
        else:
            break
        back = Lake(spark, str(root))
        back.recover()
        assert offsets(root) == Counter(range(8))
        assert len(back.parts(MESSAGES)) == (4 if changes == 0 else 1)
        assert back.has_batch(QUERY, 1)
    assert refused == 6, "the guard is there while one file comes and four go"


def test_small_files_are_put_together_and_spark_refuses_a_folder_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    for batch in range(2):
        take(Lake(spark, str(tmp_path)), tmp_path, batch)
    with pytest.raises(Killed):
        compact(spark, mortal_lake(spark, tmp_path, 5), files_min=4)
    reader = spark.read.schema("offset BIGINT, queue STRING, hour STRING")
    with pytest.raises((PySparkException, Py4JJavaError), match=GUARD):
        reader.parquet(str(tmp_path / MESSAGES)).count()
    lake = Lake(spark, str(tmp_path))
    lake.recover()
    assert len(lake.parts(MESSAGES)) == 1
    assert reader.parquet(str(tmp_path / MESSAGES)).count() == 8


def test_a_lake_that_was_filled_from_another_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, str(tmp_path))
    take(lake, tmp_path, 0)
    with pytest.raises(ForeignLake, match="another checkpoint"):
        lake.has_batch("another query", 0)
