"""What tests of the package have other environments do: read, follow, publish; it prints facts.

It knows nothing of the tests, since it runs where only Spark and `pyspark-warren` are.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_warren import progress, register

ENDS_WITHIN_S = 300


class Driver:
    """One session, and where the broker is."""

    def __init__(self, spark: SparkSession, places: dict[str, str]) -> None:
        self.spark = spark
        self.places = places

    def read(self, queue: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("warren").option("url", self.places["http"])
        return reader.option("queue", queue).options(**options).load()

    def run(self) -> dict[str, Any]:
        queue, target = self.places["queue"], self.places["target"]
        facts: dict[str, Any] = {"version": pyspark.__version__}
        facts["rows"] = self.bodies(self.read(queue))
        facts["filtered"] = self.bodies(self.read(queue).where("offset >= 5 and offset != 7"))
        facts["columns"] = self.read(queue, columns="offset,value").columns
        facts["progress"] = self.follow(queue, target)
        facts["published"] = self.bodies(self.read(target))
        rows = self.read(queue, columns="value")
        writer = rows.write.format("warren").mode("append").option("url", self.places["amqp"])
        writer.option("routingKey", target).save()
        facts["published again"] = self.bodies(self.read(target))
        facts["limited"] = self.limited(queue)
        return facts

    def bodies(self, frame: DataFrame) -> list[int]:
        return sorted(int(bytes(row.value)) for row in frame.select("value").collect())

    def follow(self, queue: str, target: str) -> bool:
        """From the stream to the queue; returns whether Spark says how far behind it is."""
        source = self.spark.readStream.format("warren").option("url", self.places["http"])
        source = source.option("queue", queue).option("startingOffsets", "earliest")
        frame = source.load().select("value", "queue", "offset")
        writer = frame.writeStream.format("warren").option("url", self.places["amqp"])
        writer = writer.option("routingKey", target).trigger(availableNow=True)
        query = writer.option("checkpointLocation", self.places["checkpoint"]).start()
        assert query.awaitTermination(ENDS_WITHIN_S), "the query came to no end"
        last = query.lastProgress
        return last is not None and progress(last) is not None

    def limited(self, queue: str) -> str:
        """What is said of a limit for batches; empty if it is taken."""
        source = self.spark.readStream.format("warren").option("url", self.places["http"])
        source = source.option("queue", queue).option("maxOffsetsPerTrigger", "1000")
        writer = source.load().writeStream.format("noop").trigger(availableNow=True)
        try:
            query = writer.option("checkpointLocation", self.places["other checkpoint"]).start()
            assert query.awaitTermination(ENDS_WITHIN_S), "the query came to no end"
        except PySparkException as error:
            return str(error)
        return ""


def make_session(places: dict[str, str]) -> SparkSession:
    remote = places.get("remote")
    if remote is not None:
        return SparkSession.builder.remote(remote).getOrCreate()
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    return builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()


def main(places: dict[str, str]) -> None:
    spark = make_session(places)
    if places.get("register"):
        register(spark)
    print(json.dumps(Driver(spark, places).run()))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
