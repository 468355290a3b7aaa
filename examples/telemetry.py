"""Sums up what the broker tells of itself, and says what holds it up; Ctrl-C ends it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyspark_warren.jobs import TelemetryOptions, telemetry

spark = SparkSession.builder.appName("telemetry").getOrCreate()
found = telemetry(
    spark,
    TelemetryOptions(
        url="http://localhost:15672", state="telemetry", report="telemetry.html", once=True
    ),
)
for node in found.nodes:
    print(f"{node}: {found.diagnosis(node)}")
