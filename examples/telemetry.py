"""Sums up what the broker tells of itself while it has some work, and says what holds it up."""

from __future__ import annotations

from pyspark_warren import local_session
from pyspark_warren.jobs import TelemetryOptions, telemetry

spark = local_session("telemetry")
options = TelemetryOptions(
    url="http://localhost:15672", state="telemetry", report="telemetry.html", once=True
)
# From its first run on, a stream gets all events.
telemetry(spark, options)
work = spark.range(20_000).selectExpr("'some work' as value", "'worked.on' as routing_key")
where = {"url": "http://localhost:15672", "exchange": "amq.topic", "queue": "work"}
spark.read.format("warren").options(**where, routingKey="worked.*").load().count()
work.write.format("warren").mode("append").options(
    url="amqp://localhost:5672", exchange="amq.topic", messagesPerSecond=1_000
).save()

found = telemetry(spark, options)
for node in found.nodes:
    print(f"{node}: {found.diagnosis(node)}")
print(f"{len(found.windows)} windows; the report is telemetry.html")
