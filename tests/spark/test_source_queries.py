"""Queries of Spark on the source: filters, patterns, progress, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from broker_process import BrokerProcess
from pyspark_warren import progress
from spark.reading import declare_stream, fill

DONE_WITHIN_S = 120
RECORDS = 30
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def filled(channel: BlockingChannel, stream: str) -> str:
    """Records with the numbers from 0, and headers on two of three."""
    for number in range(RECORDS):
        headers = None if number % 3 == 0 else {"kind": f"k{number % 3}", "number": number}
        channel.basic_publish("", stream, b"%d" % number, pika.BasicProperties(headers=headers))
    return stream


def frame_of(spark: SparkSession, url: str, queue: str, **options: object) -> DataFrame:
    reader = spark.read.format("warren").option("url", url).option("queue", queue)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def await_rows(query: StreamingQuery, rows: int) -> None:
    """Until so many rows have gone through; those of batches that are forgotten are not counted."""
    deadline = time.monotonic() + DONE_WITHIN_S
    while sum(batch["numInputRows"] for batch in query.recentProgress) < rows:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.1)


def run_to_its_end(source: DataStreamReader) -> None:
    writer = source.load().writeStream.format("noop")
    assert writer.trigger(availableNow=True).start().awaitTermination(DONE_WITHIN_S)


FILTERS = [
    "offset >= 25", "offset != 5", "not (offset < 5)", "offset = 3 or offset = 9",
    "offset in (1, 2, 99)", "offset > 3.5", "offset between 4 and 6 and offset != 5",
    "offset <=> 7", "offset is null", "timestamp > timestamp'2020-01-01 00:00:00'",
    "timestamp > now()", "headers['kind'] = 'k1'", "headers is null", "headers['kind'] is null",
    "cast(headers['number'] as int) > 20", "routing_key like 'spark-%'", "routing_key like '%-'",
    "routing_key = 'nowhere'", "routing_key in ('nowhere', null)", "exchange = ''",
    "properties.message_id is null", "queue = 'nowhere'", "queue like 'spark%'",
    "string(value) = '7'", "length(routing_key) > 3 and offset < 3",
]  # fmt: skip


def test_filters_that_are_pushed_down_change_no_result(
    spark: SparkSession, filled: str, http_url: str
) -> None:
    whole = frame_of(spark, http_url, filled).cache()
    assert whole.count() == RECORDS
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set(PUSHDOWN, "true")
    try:
        for text in FILTERS:
            expected = sorted(row.offset for row in whole.where(text).collect())
            asked = frame_of(spark, http_url, filled).where(text)
            assert sorted(row.offset for row in asked.collect()) == expected, text
    finally:
        spark.conf.set(PUSHDOWN, "false")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    whole.unpersist()


def test_filters_that_are_taken_over_are_no_step_of_the_plan(
    spark: SparkSession, filled: str, http_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = frame_of(spark, http_url, filled).where("offset >= 25").select("offset")
    frame.explain()
    assert "Filter" in capsys.readouterr().out, "Spark offers none unless told to"
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = frame_of(spark, http_url, filled).where("offset >= 25").select("offset")
        frame.explain()
        assert "Filter" not in capsys.readouterr().out.replace("RuntimeFilters", "")
        assert frame.count() == 5
    finally:
        spark.conf.set(PUSHDOWN, "false")


def test_columns_are_chosen_by_option_or_schema(
    spark: SparkSession, filled: str, http_url: str
) -> None:
    by_option = frame_of(spark, http_url, filled, columns="offset, value")
    assert by_option.columns == ["offset", "value"]
    reader = spark.read.format("warren").schema("value binary, offset long")
    by_schema = reader.option("url", http_url).option("queue", filled).load()
    assert by_schema.columns == ["value", "offset"]
    rows = by_schema.orderBy("offset").collect()
    assert [bytes(row.value) for row in rows] == [b"%d" % n for n in range(RECORDS)]
    assert by_option.agg(F.sum("offset")).first() == (sum(range(RECORDS)),)


def test_a_query_reads_queues_that_appear_while_it_runs(
    spark: SparkSession,
    channel: BlockingChannel,
    stream: str,
    http_url: str,
    checkpoint: str,
    tmp_path: Path,
) -> None:
    fill(channel, stream, range(5))
    source = spark.readStream.format("warren").option("url", http_url)
    source = source.option("subscribePattern", f"{stream}.*")
    writer = source.option("startingOffsets", "earliest").load().writeStream.format("parquet")
    writer = writer.option("checkpointLocation", checkpoint)
    query = writer.start(str(tmp_path / "lake"))
    late = f"{stream}-late"
    try:
        await_rows(query, 5)
        declare_stream(channel, late)
        fill(channel, late, range(5, 8))
        await_rows(query, 8)
    finally:
        query.stop()
    query = writer.trigger(availableNow=True).start(str(tmp_path / "lake"))
    assert query.awaitTermination(DONE_WITHIN_S), "the query came to no end"
    rows = spark.read.parquet(str(tmp_path / "lake")).collect()
    channel.queue_delete(late)
    expected = [(stream, n, n) for n in range(5)] + [(late, n - 5, n) for n in range(5, 8)]
    assert sorted((row.queue, row.offset, int(bytes(row.value))) for row in rows) == expected


def test_progress_of_a_query_is_the_lag_that_the_broker_shows(
    spark: SparkSession, broker: BrokerProcess, filled: str, http_url: str, checkpoint: str
) -> None:
    source = spark.readStream.format("warren").option("url", http_url).option("queue", filled)
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "12")
    frame = source.option("group", "shown").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(DONE_WITHIN_S), "the query came to no end"
    shown: list[dict[str, Any]] = [
        found for batch in query.recentProgress if (found := progress(batch)) is not None
    ]
    assert [one["maxOffsetsBehindLatest"] for one in shown] == [18, 6, 0]
    assert [one["queues"][filled]["offsetsBehindLatest"] for one in shown] == [18, 6, 0]
    assert shown[0]["bytesBehindLatest"] > shown[1]["bytesBehindLatest"] > 0
    assert shown[1]["oldestUnreadAgeMs"] > 0
    assert (shown[2]["bytesBehindLatest"], shown[2]["oldestUnreadAgeMs"]) == (0, 0)
    lag = broker.ask(f"/api/warren/streams/%2F/{filled}/groups/shown")["lag"]
    last = progress(query)
    assert last is not None
    assert last["maxOffsetsBehindLatest"] == lag


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "10"}, "option endingOffsets: has no effect in a stream"),
        ({"endingTimestamp": "10"}, "option endingTimestamp: has no effect in a stream"),
        ({"limit": "10"}, "option limit: has no effect in a stream"),
        ({"maxTriggerDelay": "5m"}, "option maxTriggerDelay: has no effect without option min"),
        ({"startingOffsets": '{"other": 1}'}, "option startingOffsets: says nothing about"),
    ],
)
def test_a_stream_refuses_what_has_no_effect_in_its_last_line(
    spark: SparkSession, stream: str, http_url: str, options: dict[str, str], message: str
) -> None:
    source = spark.readStream.format("warren").option("url", http_url).option("queue", stream)
    with pytest.raises(PySparkException) as caught:
        run_to_its_end(source.options(**options))
    text = str(caught.value)
    assert message in text
    raised = [line for line in text.splitlines() if "Error: " in line or "InvalidOption: " in line]
    assert message in raised[-1], text


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "group"])
def test_a_batch_refuses_what_has_no_effect(
    spark: SparkSession, stream: str, http_url: str, name: str
) -> None:
    with pytest.raises(PySparkException, match=f"option {name}: has no effect in a batch"):
        frame_of(spark, http_url, stream, **{name: "5"}).count()


def test_a_batch_is_read_in_part(spark: SparkSession, filled: str, http_url: str) -> None:
    """Spark ends tasks early once it has enough rows, and so their readers."""
    frame = frame_of(spark, http_url, filled, minPartitions=3)
    assert [row.offset for row in frame.take(2)] == [0, 1]
    assert frame.limit(4).count() == 4
