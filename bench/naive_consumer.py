"""What people write who have no source for their broker: pika in foreachBatch.

A batch of the rate source is only a clock. In each, the driver takes messages one by one, makes
rows of them, and has Spark write these; then it acknowledges. Kept as it is usually found.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import pika  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS: Final = 20_000
_ENDED_WITHIN_S: Final = 600.0


def consume_naively(session: SparkSession, port: int, queue: str, rows: int, lake: str) -> None:
    """Takes so many messages of the queue to Parquet files."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=BATCH_ROWS)
    messages = channel.consume(queue)
    done = threading.Event()
    taken = 0

    def take(_: DataFrame, _number: int) -> None:
        nonlocal taken
        if done.is_set():
            return
        batch = []
        for method, properties, body in messages:
            key = method.routing_key
            batch.append((bytearray(body), queue, method.exchange, key, properties.delivery_mode))
            if len(batch) == min(BATCH_ROWS, rows - taken):
                break
        columns = "value binary, queue string, exchange string, routing_key string, mode int"
        session.createDataFrame(batch, columns).write.mode("append").parquet(lake)
        channel.basic_ack(method.delivery_tag, multiple=True)
        taken += len(batch)
        if taken >= rows:
            done.set()

    clock = session.readStream.format("rate").option("rowsPerSecond", 1_000).load()
    query = clock.writeStream.foreachBatch(take).start()
    try:
        if not done.wait(_ENDED_WITHIN_S):
            raise RuntimeError(f"{taken} of {rows} messages were taken")
    finally:
        query.stop()
        connection.close()
