"""Super streams in Spark: read as one name and as they grow, written by key."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from acceptance.management_client import Api
from broker_process import Address, BrokerProcess

PERSISTENT = pika.BasicProperties(delivery_mode=2)
KEYS = [f"customer-{number}" for number in range(30)]
DONE_WITHIN_S = 120


@pytest.fixture
def super_stream(broker: BrokerProcess) -> Iterator[str]:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    grow(broker, name, 2)
    yield name
    api_of(broker).delete("warren", "super-streams", "/", name)


def api_of(broker: BrokerProcess) -> Api:
    return Api(Address("127.0.0.1", broker.http_port))


def grow(broker: BrokerProcess, name: str, count: int) -> None:
    api = api_of(broker)
    api.must(api.put("warren", "super-streams", "/", name, body={"partitions": count}))


def fill(channel: BlockingChannel, name: str, body: bytes) -> None:
    for key in KEYS:
        channel.basic_publish(name, key, body, PERSISTENT, mandatory=True)


def test_a_stream_reads_partitions_that_are_added_while_it_runs(
    spark: SparkSession,
    broker: BrokerProcess,
    channel: BlockingChannel,
    super_stream: str,
    http_url: str,
    tmp_path: Path,
) -> None:
    source = (
        spark.readStream.format("warren")
        .options(url=http_url, superStream=super_stream, startingOffsets="earliest", group="lake")
        .load()
    )
    writer = source.writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    fill(channel, super_stream, b"before")
    query = writer.start(str(tmp_path / "lake"))
    try:
        query.processAllAvailable()
        grow(broker, super_stream, 3)
        fill(channel, super_stream, b"after")
        query.processAllAvailable()
    finally:
        query.stop()
    lake = spark.read.parquet(str(tmp_path / "lake"))
    rows = lake.select("queue", "routing_key", col("value").cast("string")).collect()
    assert sorted((row.routing_key, row.value) for row in rows) == sorted(
        (key, body) for key in KEYS for body in ("before", "after")
    )
    queues = {
        body: {row.queue for row in rows if row.value == body} for body in ("before", "after")
    }
    assert queues["before"] == {f"{super_stream}-0", f"{super_stream}-1"}
    assert queues["after"] == queues["before"] | {f"{super_stream}-2"}
    batch = spark.read.format("warren").options(url=http_url, superStream=super_stream).load()
    assert batch.count() == 2 * len(KEYS)


def test_rows_are_written_by_a_column_that_is_their_key(
    spark: SparkSession, broker: BrokerProcess, super_stream: str, amqp_url: str, http_url: str
) -> None:
    """A source's own column `exchange` says where a row was, not where it goes."""
    rows = [(number % 10, f"{number}", "elsewhere") for number in range(200)]
    frame = spark.createDataFrame(rows, "customer long, value string, exchange string")
    options = {"url": amqp_url, "superStream": super_stream, "partitionKey": "customer"}
    frame.coalesce(1).write.format("warren").options(**options).mode("append").save()
    read = spark.read.format("warren").options(url=http_url, superStream=super_stream).load()
    found = read.select("queue", "routing_key", "offset", col("value").cast("string")).collect()
    assert len(found) == 200
    for customer in range(10):
        of_key = sorted(
            (row for row in found if row.routing_key == str(customer)), key=lambda row: row.offset
        )
        assert len({row.queue for row in of_key}) == 1
        assert [int(row.value) for row in of_key] == list(range(customer, 200, 10))


def test_one_that_is_not_there_is_named(spark: SparkSession, http_url: str) -> None:
    reader = spark.read.format("warren").options(url=http_url, superStream="missing")
    with pytest.raises(PySparkException, match="there is no 'missing' in virtual host"):
        reader.load().count()
