"""Nodes that do not answer, and records that are gone."""

from __future__ import annotations

import threading
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from broker_process import BrokerProcess, free_port

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def cut_stream(channel: BlockingChannel, queue: str, broker: BrokerProcess) -> tuple[str, int]:
    """A stream of which the beginning is gone, and an offset before which nothing is left."""
    arguments = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 3_000,
        "x-stream-max-segment-size-bytes": 1_000,
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    for number in range(60):
        channel.basic_publish("", queue, b"%d" % number * 100, PERSISTENT)
    first = broker.ask(f"/api/warren/streams/%2F/{queue}")["first_offset"]
    assert 0 < first < 60
    return queue, first


def test_records_that_are_gone_are_an_error_unless_told_otherwise(
    spark: SparkSession, cut_stream: tuple[str, int], http_url: str
) -> None:
    queue, first = cut_stream
    reader = spark.read.format("warren").option("url", http_url).option("queue", queue)
    reader = reader.option("startingOffsets", "0")
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        reader.load().collect()
    rows = reader.option("failOnDataLoss", "false").load().select("offset").collect()
    found = sorted(row.offset for row in rows)
    assert first <= found[0] < 60, "retention may have gone on meanwhile"
    assert found == list(range(found[0], 60))


def test_a_node_that_does_not_answer_is_passed_over(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str, amqp_url: str
) -> None:
    dead = free_port()
    rows = spark.range(10).select(F.col("id").cast("string").alias("value"))
    writer = rows.write.format("warren").mode("append").option("routingKey", stream)
    writer.option("url", f"amqp://127.0.0.1:{dead},{amqp_url}").save()
    reader = spark.read.format("warren").option("queue", stream)
    assert reader.option("url", f"http://127.0.0.1:{dead},{http_url}").load().count() == 10


def test_a_broker_that_is_still_starting_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are published, and read, while the only node is on its way up after a kill."""
    own = BrokerProcess(tmp_path)
    own.start()
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters(*own.address, heartbeat=0))
        arguments = {"x-queue-type": "stream"}
        connection.channel().queue_declare("lasting", durable=True, arguments=arguments)
        connection.close()
        own.kill()
        back = threading.Thread(target=own.start)
        back.start()
        rows = spark.range(100).select(F.col("id").cast("string").alias("value"))
        url = f"amqp://127.0.0.1:{own.address.port}"
        writer = rows.write.format("warren").mode("append").option("url", url)
        writer.option("routingKey", "lasting").save()
        back.join()
        own.kill()
        back = threading.Thread(target=own.start)
        back.start()
        url = f"http://127.0.0.1:{own.http_port}"
        reader = spark.read.format("warren").option("url", url).option("queue", "lasting")
        found = sorted(int(bytes(row.value)) for row in reader.load().collect())
        back.join()
        assert found == list(range(100))
    finally:
        own.kill()
