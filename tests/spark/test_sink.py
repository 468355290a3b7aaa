"""`df.write.format("warren")` and `df.writeStream.format("warren")`: rows become messages."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

ROWS = 1_000


def publish(frame: DataFrame, url: str, **options: str) -> None:
    writer = frame.write.format("warren").mode("append").option("url", url)
    writer.options(**options).save()


def taken(channel: BlockingChannel, queue: str) -> list[tuple[bytes, dict[str, object]]]:
    """Everything in the queue: bodies and headers."""
    found = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((body, properties.headers or {}))


def test_every_row_is_published_once(
    spark: SparkSession, channel: BlockingChannel, queue: str, amqp_url: str
) -> None:
    channel.queue_declare(queue, durable=True)
    frame = spark.range(ROWS).select(F.col("id").cast("string").alias("value"))
    publish(frame.repartition(3), amqp_url, routingKey=queue)
    bodies = sorted(int(body) for body, _ in taken(channel, queue))
    assert bodies == list(range(ROWS))


def test_rows_say_where_to_and_with_what(
    spark: SparkSession, channel: BlockingChannel, queue: str, amqp_url: str
) -> None:
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, "amq.direct", "key")
    frame = spark.createDataFrame(
        [(b"body", "key", "amq.direct", {"a": "1"}, "m1", 7)],
        "value binary, routing_key string, exchange string, headers map<string,string>, "
        "message_id string, number long",
    )
    publish(frame, amqp_url, idColumns="number,message_id")
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    assert (method.exchange, method.routing_key, body) == ("amq.direct", "key", b"body")
    assert properties.headers == {"a": "1", "x-deduplication-header": "7:m1"}
    assert (properties.message_id, properties.delivery_mode) == ("m1", 2)


def test_what_was_read_can_be_written_as_it_is(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str, amqp_url: str
) -> None:
    frame = spark.range(50).select(
        F.col("id").cast("string").alias("value"), F.lit(stream).alias("routing_key")
    )
    publish(frame, amqp_url)
    read = spark.read.format("warren").option("url", http_url).option("queue", stream).load()
    target = f"{stream}-copy"
    channel.queue_declare(target, exclusive=True)
    copied = read.withColumn("routing_key", F.lit(target))
    publish(copied, amqp_url, idColumns="queue,offset")
    found = taken(channel, target)
    assert sorted(int(body) for body, _ in found) == list(range(50))
    ids = {headers["x-deduplication-header"] for _, headers in found}
    assert ids == {f"{stream}:{offset}" for offset in range(50)}


def test_a_streaming_query_publishes(
    spark: SparkSession,
    channel: BlockingChannel,
    stream: str,
    http_url: str,
    amqp_url: str,
    checkpoint: str,
) -> None:
    target = f"{stream}-copy"
    channel.queue_declare(target, exclusive=True)
    for number in range(20):
        channel.basic_publish("", stream, b"%d" % number)
    source = spark.readStream.format("warren").option("url", http_url).option("queue", stream)
    frame = source.option("startingOffsets", "earliest").load().select("value", "queue", "offset")
    writer = frame.writeStream.format("warren").option("url", amqp_url)
    writer = writer.option("routingKey", target).option("idColumns", "queue,offset")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120), "the query came to no end"
    assert sorted(int(body) for body, _ in taken(channel, target)) == list(range(20))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'a' value", {"routingKey": "no such queue"}, "312 NO_ROUTE"),
        ("'a' value", {"routingKey": "k", "exchange": "nowhere"}, "404 NOT_FOUND"),
        ("'a' value", {"routingKey": "k", "idColumn": "value"}, "did you mean idColumns?"),
        ("'a' value", {}, "column routing_key: is missing"),
        ("'a' value, 'k' routingkey", {}, "did you mean routing_key?"),
        ("1 value, 'k' routing_key", {}, "column value: is int and must be binary or string"),
        ("cast(null as string) value", {"routingKey": "k"}, "column value is null"),
        ("'a' value", {"routingKey": "k", "password": "wrong"}, "403 ACCESS_REFUSED"),
    ],
)
def test_what_is_wrong_fails_with_the_reason(
    spark: SparkSession, amqp_url: str, columns: str, options: dict[str, str], message: str
) -> None:
    url = amqp_url.replace("guest:guest@", "")
    with pytest.raises(PySparkException) as caught:
        publish(spark.sql(f"select {columns}"), url, **options)
    assert message in str(caught.value)
