"""Publishes orders to a stream and puts them into a lake; those that do not decode go aside.

Run it again: it takes in what has come since.
"""

from __future__ import annotations

from deltalake import DeltaTable

from pyspark_warren import local_session
from pyspark_warren.jobs import IngestOptions, ingest

spark = local_session("ingest")

orders = spark.range(10_000).selectExpr(
    # Every hundredth has no total.
    "if(id % 100 = 0, 'what?', to_json(struct(id, id * 1.5 as total))) as value",
    "concat('orders.', if(id % 2 = 0, 'new', 'changed')) as routing_key",
)
options = {"url": "http://localhost:15672", "exchange": "amq.topic", "queue": "orders"}
# Reading once declares the stream and binds it to the exchange, before anything is published.
spark.read.format("warren").options(**options, routingKey="orders.#").load().count()
orders.write.format("warren").mode("append").options(
    url="amqp://localhost:5672", exchange="amq.topic"
).save()

done = ingest(
    spark,
    IngestOptions(
        url="http://localhost:15672",
        queue="orders",
        lake="lake",
        format="json",
        schema="id BIGINT NOT NULL, total DOUBLE NOT NULL",
        once=True,
    ),
)
print(f"{done.messages} orders and {done.quarantined} in quarantine")
# This is delta-rs; DuckDB, polars and Spark's Delta connector read the tables, too.
quarantine = DeltaTable("lake/quarantine").to_pyarrow_table()
for row in quarantine.group_by("reason").aggregate([("offset", "count")]).to_pylist():
    print(f"{row['offset_count']} times: {row['reason']}")
