"""`spark.read.format("warren")` on a real Spark against a real broker."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from broker_process import BrokerProcess
from pyspark_warren import register

PERSISTENT = pika.BasicProperties(delivery_mode=2)
RECORDS = 40


def read(spark: SparkSession, url: str, queue: str, **options: object) -> DataFrame:
    reader = spark.read.format("warren").option("url", url).option("queue", queue)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def fill(channel: BlockingChannel, queue: str, count: int = RECORDS) -> None:
    for number in range(count):
        channel.basic_publish("", queue, b"record %d" % number, PERSISTENT)


def test_a_stream_is_read_whole_and_in_order(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream)
    rows = read(spark, http_url, stream).orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(RECORDS))
    assert [bytes(row.value) for row in rows] == [b"record %d" % n for n in range(RECORDS)]
    assert {(row.queue, row.exchange, row.routing_key) for row in rows} == {(stream, "", stream)}
    assert {row.properties.delivery_mode for row in rows} == {2}
    assert all(row.timestamp is not None and not row.redelivered for row in rows)


def test_the_source_is_found_by_its_name_and_can_be_registered_all_the_same(
    spark: SparkSession, stream: str, http_url: str
) -> None:
    """The other tests rely on its being found."""
    register(spark)
    assert read(spark, http_url, stream).count() == 0


def test_a_stream_is_cut_into_partitions_and_nothing_is_read_twice(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream)
    frame = read(spark, http_url, stream, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in frame.select("offset").collect()) == list(range(RECORDS))


def test_a_directory_of_segments_is_read_like_any_other_file(
    spark: SparkSession, channel: BlockingChannel, stream: str, broker: BrokerProcess
) -> None:
    fill(channel, stream)
    directory = broker.ask(f"/api/warren/streams/%2F/{stream}")["directory"]
    rows = spark.read.format("warren").load(directory).collect()
    assert sorted((row.queue, row.offset) for row in rows) == [(stream, n) for n in range(RECORDS)]


def test_a_span_of_offsets_is_read(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str
) -> None:
    fill(channel, stream)
    frame = read(spark, http_url, stream, startingOffsets=5, endingOffsets=9, includeHeaders=False)
    assert "headers" not in frame.columns
    assert sorted(row.offset for row in frame.collect()) == [5, 6, 7, 8]


def test_a_classic_queue_is_read_as_it_is_and_left_alone(
    spark: SparkSession, channel: BlockingChannel, queue: str, http_url: str
) -> None:
    channel.queue_declare(queue, durable=True)
    fill(channel, queue, 5)
    headers = pika.BasicProperties(headers={"kind": "last", "count": 3}, message_id="m5")
    channel.basic_publish("", queue, b"the last", headers)
    rows = read(spark, http_url, queue).orderBy("offset").collect()
    assert [bytes(row.value) for row in rows[-2:]] == [b"record 4", b"the last"]
    assert rows[-1].headers == {"kind": "last", "count": "3"}
    assert rows[-1].properties.message_id == "m5"
    assert channel.queue_declare(queue, passive=True).method.message_count == 6
    assert read(spark, http_url, queue, endingOffsets=2).count() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"queue": "nowhere"}, "there is no 'nowhere' in virtual host '/'"),
        ({"user": "guest", "password": "wrong", "url": "BARE"}, "refuses user 'guest'"),
        ({"vhost": "nowhere"}, "nowhere"),
    ],
)
def test_what_is_wrong_is_said(
    spark: SparkSession, stream: str, http_url: str, options: dict[str, str], message: str
) -> None:
    bare = http_url.replace("guest:guest@", "")
    given = {name: bare if value == "BARE" else value for name, value in options.items()}
    given = {"url": http_url, "queue": stream, **given}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("warren").options(**given).load().collect()
    assert message in str(caught.value)


def test_an_exchange_gets_a_stream(
    spark: SparkSession, channel: BlockingChannel, queue: str, http_url: str
) -> None:
    options = {"exchange": "amq.topic", "routingKey": f"{queue}.#"}
    assert read(spark, http_url, queue, **options).count() == 0
    channel.basic_publish("amq.topic", f"{queue}.a", b"body", PERSISTENT)
    channel.basic_publish("amq.topic", "another", b"body", PERSISTENT)
    (row,) = read(spark, http_url, queue, **options).collect()
    assert (row.exchange, row.routing_key, row.offset) == ("amq.topic", f"{queue}.a", 0)
