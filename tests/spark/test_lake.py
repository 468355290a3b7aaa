"""The lake of `warren pipeline ingest` as its readers and its operators have it, through Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from lake_tables import offsets_in, table_in
from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs import IngestOptions, ReplayOptions, ingest, replay
from pyspark_warren.lake import MESSAGES, QUARANTINE
from pyspark_warren.lake.delta import Batch, DeltaLakeTable
from pyspark_warren.lake.opening import TableFormat
from pyspark_warren.lake.plain import PlainTable
from pyspark_warren.lake.reading import Slice, read_slices
from pyspark_warren.lake.storage import Storage

STREAM = {"x-queue-type": "stream"}
SCHEMA = "id BIGINT NOT NULL"


def publish(channel: BlockingChannel, queue: str, numbers: range) -> None:
    """Every fifth does not decode."""
    for number in numbers:
        body = b'{"id": %d, "total": 0.5}' % number if number % 5 else b"what?"
        channel.basic_publish("", queue, body)


def good(numbers: range) -> list[int]:
    return [number for number in numbers if number % 5]


@pytest.fixture
def options(http_url: str, stream: str, tmp_path: Path) -> IngestOptions:
    return IngestOptions(
        url=http_url, queue=stream, lake=str(tmp_path / "lake"), format="json", schema=SCHEMA,
        once=True,
    )  # fmt: skip


def test_all_readers_have_the_same_rows(
    spark: SparkSession, channel: BlockingChannel, queue: str, options: IngestOptions
) -> None:
    """Of two queues, one with a name that has to be encoded in paths."""
    odd = f"{queue} a/b=%ü"
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    channel.queue_declare(odd, durable=True, arguments=STREAM)
    try:
        publish(channel, queue, range(20))
        publish(channel, odd, range(10))
        ingest(spark, replace(options, queue=f"{queue},{odd}", partitions=3))
    finally:
        channel.queue_delete(odd)
    path = f"{options.lake}/{MESSAGES}"
    expected = {queue: len(good(range(20))), odd: len(good(range(10)))}
    assert {
        row["queue"]: row["len"]
        for row in pl.scan_delta(path).group_by("queue").len().collect().to_dicts()
    } == expected
    with duckdb.connect() as connection:
        connection.register("rows", DeltaTable(path).to_pyarrow_dataset())
        assert (
            dict(connection.sql("SELECT queue, count(*) FROM rows GROUP BY 1").fetchall())
            == expected
        )
    pandas = DeltaTable(path).to_pandas()
    assert dict(pandas.groupby("queue").size()) == expected
    table = DeltaLakeTable.open(Storage.of(options.lake), MESSAGES)
    assert table is not None
    slices = [Slice(f.path, f.queue, f.hour, 0, f.last_offset + 1) for f in table.files()]
    rows = read_slices(spark, Storage.of(path), table.schema, slices, tasks=2)
    matching = rows.filter(F.col("body.id") == F.col("offset"))
    counts = matching.groupBy("queue").count().collect()
    assert {row["queue"]: row["count"] for row in counts} == expected


def test_a_driver_that_was_killed_between_the_two_tables_completes_the_batch(
    spark: SparkSession,
    channel: BlockingChannel,
    options: IngestOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each of the moments: before any commit, between the two, and behind both."""
    assert options.queue is not None
    publish(channel, options.queue, range(10))
    commit = DeltaLakeTable.commit
    for done_before in range(3):
        lake = f"{options.lake}-{done_before}"
        commits: list[str] = []

        def die(
            self: DeltaLakeTable,
            batch: Batch,
            files: Any,
            commits: list[str] = commits,
            limit: int = done_before,
        ) -> None:
            if len(commits) < limit:
                commit(self, batch, files)
                commits.append(self.name)
            if len(commits) == limit:
                raise WarrenError("killed here")

        monkeypatch.setattr(DeltaLakeTable, "commit", die)
        with pytest.raises(WarrenError, match="killed here"):
            ingest(spark, replace(options, lake=lake))
        monkeypatch.setattr(DeltaLakeTable, "commit", commit)
        assert len(commits) == done_before
        ingest(spark, replace(options, lake=lake))
        assert offsets_in(lake) == good(range(10))
        assert offsets_in(lake, QUARANTINE) == [0, 5]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_lake_that_lacks_batches_of_its_checkpoint_is_refused(
    spark: SparkSession,
    channel: BlockingChannel,
    options: IngestOptions,
    table_format: TableFormat,
    tmp_path: Path,
) -> None:
    """Of what was taken in, nothing would ever come again. A batch without good rows counts."""
    assert options.queue is not None
    channel.basic_publish("", options.queue, b"what?")
    kept = replace(options, checkpoint=str(tmp_path / "checkpoint"), table_format=table_format)
    assert ingest(spark, kept).quarantined == 1
    publish(channel, options.queue, range(1, 5))
    assert ingest(spark, kept).messages == 4
    shutil.rmtree(options.lake)
    publish(channel, options.queue, range(5, 7))
    with pytest.raises(WarrenError, match=r"says that 2 batches are in the lake, and .* none of"):
        ingest(spark, kept)
    assert ingest(spark, replace(kept, checkpoint=str(tmp_path / "new"))).messages == 5


def test_a_new_field_of_bodies_is_refused_or_merged(
    spark: SparkSession, channel: BlockingChannel, options: IngestOptions
) -> None:
    assert options.queue is not None
    publish(channel, options.queue, range(5))
    ingest(spark, options)
    publish(channel, options.queue, range(5, 10))
    wider = replace(options, schema=f"{SCHEMA}, total DOUBLE")
    with pytest.raises(WarrenError, match=r"new here: body.total double\. With --schema-evolution"):
        ingest(spark, wider)
    assert ingest(spark, replace(wider, schema_evolution="merge")).messages == 4
    totals = [body["total"] for body in table_in(options.lake)["body"].to_pylist()]
    assert totals == [None] * 4 + [0.5] * 4


def test_files_are_put_together_at_the_end_of_a_run(
    spark: SparkSession, channel: BlockingChannel, options: IngestOptions
) -> None:
    assert options.queue is not None
    publish(channel, options.queue, range(20))
    tidy = replace(options, offsets_max=5, compact_files=2, z_order="routing_key, offset")
    with pytest.raises(WarrenError, match="option z_order: there is no column 'routing'"):
        ingest(spark, replace(tidy, z_order="routing"))
    assert ingest(spark, tidy).batches == 4
    operations = [e["operation"] for e in DeltaTable(f"{options.lake}/{MESSAGES}").history()]
    assert operations.count("OPTIMIZE") == 1
    assert offsets_in(options.lake) == good(range(20))


def test_plain_parquet_grows_and_is_replayed(
    spark: SparkSession,
    channel: BlockingChannel,
    options: IngestOptions,
    amqp_url: str,
) -> None:
    assert options.queue is not None
    plain = replace(options, table_format="parquet", offsets_max=5)
    publish(channel, options.queue, range(10))
    done = ingest(spark, plain)
    assert (done.batches, done.messages, done.quarantined) == (2, 8, 2)
    publish(channel, options.queue, range(10, 15))
    assert ingest(spark, plain).messages == 4
    rows = pl.read_parquet(f"{options.lake}/{MESSAGES}", hive_partitioning=True)
    assert sorted(rows["offset"]) == good(range(15))
    assert not list(Path(options.lake, MESSAGES).rglob("*.crc"))
    table = PlainTable(Storage.of(options.lake), MESSAGES)
    assert sum(file.rows for file in table.files()) == 12
    channel.queue_declare("again", durable=True)
    try:
        replay(
            spark,
            ReplayOptions(
                url=amqp_url, lake=options.lake, to_exchange="", to_routing_key="again", yes=True
            ),
        )
        assert channel.queue_declare("again", passive=True).method.message_count == 12
    finally:
        channel.queue_delete("again")


def test_a_replay_goes_on_by_offsets_after_files_were_put_together(
    spark: SparkSession,
    channel: BlockingChannel,
    options: IngestOptions,
    amqp_url: str,
    tmp_path: Path,
) -> None:
    assert options.queue is not None
    publish(channel, options.queue, range(20))
    ingest(spark, replace(options, offsets_max=5, compact_files=0))
    channel.queue_declare("again", durable=True)
    given = ReplayOptions(
        url=amqp_url, lake=options.lake, to_exchange="", to_routing_key="again", yes=True,
        state=str(tmp_path / "state"), offsets_max=7,
    )  # fmt: skip
    try:
        assert replay(spark, given).messages == 16
        publish(channel, options.queue, range(20, 30))
        ingest(spark, replace(options, offsets_max=5, compact_files=2))
        assert len(DeltaTable(f"{options.lake}/{MESSAGES}").file_uris()) < 6
        assert replay(spark, given).messages == 8
        assert channel.queue_declare("again", passive=True).method.message_count == 24
        with pytest.raises(WarrenError, match=r"other options \(routing_key\)"):
            replay(spark, replace(given, routing_key="a.*"))
    finally:
        channel.queue_delete("again")
