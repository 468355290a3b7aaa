"""Publishes some orders of the lake once more, to a queue that takes each of them once."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyspark_warren.jobs import ReplayOptions, replay

spark = SparkSession.builder.appName("replay").getOrCreate()
where = {
    "url": "amqp://localhost",
    "lake": "lake",
    "routing_key": "orders.new",
    "where": "body.total > 10000",
    "to_exchange": "",
    # Declare it with x-message-deduplication: true.
    "to_routing_key": "large-orders",
}
print(replay(spark, ReplayOptions(**where)).routes)
print(replay(spark, ReplayOptions(**where, rate=2_000, yes=True)).messages)
