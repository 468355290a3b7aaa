"""Lets orders die, writes a report of what died, and sends back what was rejected."""

from __future__ import annotations

import time

import pika

from pyspark_warren import local_session
from pyspark_warren.jobs import DeadLettersOptions, dead_letters

channel = pika.BlockingConnection(pika.ConnectionParameters(port=5672)).channel()
channel.confirm_delivery()
channel.queue_declare("dead", durable=True)
dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
channel.queue_declare("warehouse", durable=True, arguments=dead)
channel.queue_bind("warehouse", "amq.topic", "warehouse.*")
channel.queue_declare("reminders", durable=True, arguments={**dead, "x-message-ttl": 1})

for number in range(100):
    key = "warehouse.parcel" if number % 3 else "warehouse.letter"
    says = pika.BasicProperties(headers={"x-exception-message": f"no shelf {number % 4}"})
    channel.basic_publish("amq.topic", key, b"an order", says)
    channel.basic_publish("", "reminders", b"pay!")
# A consumer that can do nothing with what it gets.
while (got := channel.basic_get("warehouse"))[0]:
    channel.basic_reject(got[0].delivery_tag, requeue=False)
while channel.queue_declare("reminders", passive=True).method.message_count:
    time.sleep(0.1)  # they live for a millisecond

spark = local_session("dead letters")
where = {"url": "http://localhost:15672,amqp://localhost:5672", "queue": "dead"}
found = dead_letters(spark, DeadLettersOptions(**where, report="dead-letters.html"))
for (origin, reason, error), count in found.by("origin", "reason", "error").most_common():
    print(f"{count} from {origin}, {reason}: {error}")
sent = dead_letters(spark, DeadLettersOptions(**where, reason="rejected", redrive=True))
print(f"{sent.redriven} sent back; the report is dead-letters.html")
