"""`spark.readStream.format("warren")`: batch after batch, stopped and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker_process import BrokerProcess

PERSISTENT = pika.BasicProperties(delivery_mode=2)
DONE_WITHIN_S = 120


def fill(channel: BlockingChannel, queue: str, numbers: range) -> None:
    for number in numbers:
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)


class Lake:
    """A query from a queue to files, run until it has come to the end."""

    def __init__(self, spark: SparkSession, place: Path, options: dict[str, str]) -> None:
        self.spark = spark
        self.place = place
        self.options = options

    def query(self) -> StreamingQuery:
        source = self.spark.readStream.format("warren").options(**self.options).load()
        writer = source.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.place / "checkpoint"))
        return writer.start(str(self.place / "lake"))

    def run(self) -> list[dict[str, Any]]:
        """Returns the progress of each batch that had rows."""
        query = self.query()
        assert query.awaitTermination(DONE_WITHIN_S), "the query came to no end"
        return [batch for batch in query.recentProgress if batch["numInputRows"]]

    def bodies(self) -> list[int]:
        rows = self.spark.read.parquet(str(self.place / "lake")).select("value").collect()
        return sorted(int(bytes(row.value)) for row in rows)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, http_url: str, stream: str) -> Lake:
    options = {"url": http_url, "queue": stream, "startingOffsets": "earliest"}
    return Lake(spark, tmp_path, options)


def test_a_query_goes_on_where_it_ended_and_takes_each_record_once(
    lake: Lake, channel: BlockingChannel, stream: str
) -> None:
    fill(channel, stream, range(30))
    lake.run()
    fill(channel, stream, range(30, 50))
    lake.run()
    assert lake.bodies() == list(range(50))


def test_a_batch_has_no_more_than_was_asked_for(
    lake: Lake, channel: BlockingChannel, stream: str
) -> None:
    fill(channel, stream, range(25))
    lake.options["maxOffsetsPerTrigger"] = "10"
    batches = lake.run()
    assert [batch["numInputRows"] for batch in batches] == [10, 10, 5]
    assert lake.bodies() == list(range(25))


def test_a_batch_is_limited_by_bytes_and_has_a_chunk_at_least(
    lake: Lake, channel: BlockingChannel, stream: str
) -> None:
    """Each record was confirmed before the next was published, so each is a chunk."""
    fill(channel, stream, range(4))
    lake.options["maxBytesPerTrigger"] = "1"
    assert len(lake.run()) > 1
    assert lake.bodies() == list(range(4))


def test_the_broker_is_told_how_far_a_group_has_come(
    lake: Lake, channel: BlockingChannel, stream: str, broker: BrokerProcess
) -> None:
    fill(channel, stream, range(20))
    lake.options.update(group="reports", maxOffsetsPerTrigger="10")
    lake.run()
    shown = broker.ask(f"/api/warren/streams/%2F/{stream}/groups/reports")
    assert (shown["offset"], shown["lag"]) == (20, 0)


def test_a_queue_that_is_no_stream_is_refused_with_what_to_do(
    lake: Lake, channel: BlockingChannel, queue: str
) -> None:
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    with pytest.raises(PySparkException, match="is not a stream: declare one with x-queue-type"):
        lake.run()
