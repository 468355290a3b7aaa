"""Nodes that do not answer, and records that are gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from broker_process import BrokerProcess, free_port
from cluster.nodes import body_of, running

PERSISTENT = pika.BasicProperties(delivery_mode=2)
DONE_WITHIN_S = 200


@pytest.fixture
def cut_stream(channel: BlockingChannel, queue: str, broker: BrokerProcess) -> tuple[str, int]:
    """A stream of which the beginning is gone, and the offset that is now its first."""
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
    assert sorted(row.offset for row in rows) == list(range(first, 60))


def test_a_node_that_does_not_answer_is_passed_over(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str, amqp_url: str
) -> None:
    dead = free_port()
    rows = spark.range(10).select(F.col("id").cast("string").alias("value"))
    writer = rows.write.format("warren").mode("append").option("routingKey", stream)
    writer.option("url", f"amqp://127.0.0.1:{dead},{amqp_url}").save()
    reader = spark.read.format("warren").option("queue", stream)
    assert reader.option("url", f"http://127.0.0.1:{dead},{http_url}").load().count() == 10


def run_batches(frame: DataFrame, lake: Path, before: Callable[[int], None]) -> None:
    """To files, a folder for each batch; something may happen before each is read."""

    def write(batch: DataFrame, number: int) -> None:
        before(number)
        batch.select("value").write.mode("overwrite").parquet(str(lake / f"batch={number}"))

    writer = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(lake.with_name("checkpoint"))).start()
    assert query.awaitTermination(DONE_WITHIN_S), "the query came to no end"


def test_a_query_whose_broker_goes_fails_with_a_word_and_can_be_gone_on_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = BrokerProcess(tmp_path)
    own.start()
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters(*own.address, heartbeat=0))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(15):
            channel.basic_publish("", "kept", b"%d" % number, PERSISTENT)
        connection.close()
        reader = spark.readStream.format("warren").option("queue", "kept")
        reader = reader.option("url", f"http://127.0.0.1:{own.http_port}")
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "5")
        frame = reader.option("failoverTimeout", "2").load()
        lake = tmp_path / "lake"
        with pytest.raises(PySparkException, match=r"no answer from .* in 2 s"):
            run_batches(frame, lake, lambda number: own.kill() if number == 1 else None)
        own.start()
        run_batches(frame, lake, lambda _: None)
        rows = spark.read.parquet(str(lake)).collect()
        assert sorted(int(bytes(row.value)) for row in rows) == list(range(15))
    finally:
        own.kill()


def test_a_query_goes_on_when_a_node_of_the_cluster_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both ends of it talk to that node first; what it reads and writes is at another."""
    with running(tmp_path) as cluster:
        home, victim, other = cluster.nodes
        channel = home.channel()
        channel.confirm_delivery()
        channel.queue_declare("read", durable=True, arguments={"x-queue-type": "stream"})
        window = {"x-message-deduplication": True, "x-cache-size": 1_000}
        channel.queue_declare("written", durable=True, arguments=window)
        for number in range(30):
            channel.basic_publish("", "read", b"%d" % number, PERSISTENT)
        asked = [victim, other, home]
        reader = spark.readStream.format("warren").option("queue", "read")
        reader = reader.option("url", ",".join(f"http://127.0.0.1:{n.http_port}" for n in asked))
        reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "10")

        def publish(batch: DataFrame, number: int) -> None:
            if number == 1:
                victim.kill()
            writer = batch.select("value", "queue", "offset").write.format("warren").mode("append")
            writer = writer.option("idColumns", "queue,offset").option("routingKey", "written")
            urls = ",".join(f"amqp://127.0.0.1:{node.address.port}" for node in asked)
            writer.option("url", urls).save()

        writer = reader.load().writeStream.foreachBatch(publish).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(DONE_WITHIN_S), "the query came to no end"
        assert victim.has_ended
        found = [body_of(channel, "written") for _ in range(31)]
        assert found.pop() is None
        assert sorted(int(body or b"-1") for body in found) == list(range(30))


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
