"""Publishes some orders of the lake once more, to a queue that takes each of them once.

The lake is that of ingest.py. Run it again: the queue has no more than before.
"""

from __future__ import annotations

import pika

from pyspark_warren import local_session
from pyspark_warren.jobs import ReplayOptions, replay

QUEUE = "large-orders"

channel = pika.BlockingConnection(pika.ConnectionParameters(port=5672)).channel()
arguments = {"x-message-deduplication": True, "x-cache-size": 100_000}
channel.queue_declare(QUEUE, durable=True, arguments=arguments)

spark = local_session("replay")
where = {
    "url": "amqp://localhost:5672",
    "lake": "lake",
    "routing_key": "orders.new",
    "where": "body.total > 10000",
    "to_exchange": "",
    "to_routing_key": QUEUE,
}
found = replay(spark, ReplayOptions(**where))
print(f"{found.messages} messages would be published: {found.routes}")
done = replay(spark, ReplayOptions(**where, rate=2_000, yes=True))
waiting = channel.queue_declare(QUEUE, passive=True).method.message_count
print(f"{done.messages} messages published; the queue has {waiting}")
