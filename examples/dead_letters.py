"""Says what died in the queue `dead`, and sends back what was rejected."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyspark_warren.jobs import DeadLettersOptions, dead_letters

spark = SparkSession.builder.appName("dead letters").getOrCreate()
found = dead_letters(
    spark,
    DeadLettersOptions(
        url="http://localhost:15672,amqp://localhost",
        queue="dead",
        report="dead-letters.html",
        reason="rejected",
        redrive=True,
    ),
)
for (origin, error), count in found.by("origin", "error").most_common():
    print(f"{count} from {origin}: {error}")
print(f"{found.redriven} sent back")
