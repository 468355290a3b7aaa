"""What the test of secrets runs: queries with secrets in their options, right and wrong ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_warren.worker_python import use_this_python

ENDS_WITHIN_S = 300


def main(places: dict[str, str]) -> None:
    directory = Path(places["directory"])
    (directory / "events").mkdir()
    use_this_python()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "700m")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", str(directory / "events"))
        .config("spark.log.level", "INFO")
        .getOrCreate()
    )
    named = {"user": places["user"], "password": places["password"]}
    run(spark, places, "1", named, "")
    run(spark, places, "2", {}, f"{places['user']}:{places['password']}@")
    for number, wrong in enumerate(
        ({"user": "nobody", "password": places["password"]}, {"token": places["token"]})
    ):
        refused(lambda given=wrong: read(spark, places, given, "").count())
        refused(lambda given=wrong: publish(read(spark, places, named, ""), places, given, ""))
        place = f"wrong-{number}"
        refused(lambda given=wrong, place=place: follow(spark, places, place, given, ""))
    spark.stop()


def run(
    spark: SparkSession, places: dict[str, str], name: str, given: dict[str, str], who: str
) -> None:
    frame = read(spark, places, given, who)
    frame.explain(True)
    assert frame.count() == 10
    publish(frame, places, given, who)
    follow(spark, places, name, given, who)


def read(spark: SparkSession, places: dict[str, str], given: dict[str, str], who: str) -> DataFrame:
    reader = spark.read.format("warren").option("url", with_user(places["http"], who))
    return reader.option("queue", places["queue"]).options(**given).load()


def publish(frame: DataFrame, places: dict[str, str], given: dict[str, str], who: str) -> None:
    writer = frame.select("value").write.format("warren").mode("append")
    writer = writer.option("url", with_user(places["amqp"], who)).options(**given)
    writer.option("routingKey", places["target"]).save()


def follow(
    spark: SparkSession, places: dict[str, str], name: str, given: dict[str, str], who: str
) -> None:
    """From the stream to another, with a checkpoint."""
    source = spark.readStream.format("warren").option("url", with_user(places["http"], who))
    source = source.option("queue", places["queue"]).option("startingOffsets", "earliest")
    frame = source.options(**given).load().select("value")
    writer = frame.writeStream.format("warren").option("url", with_user(places["amqp"], who))
    writer = writer.options(**given).option("routingKey", places["target"])
    checkpoint = str(Path(places["directory"]) / f"checkpoint-{name}")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(ENDS_WITHIN_S), "the query came to no end"
    print(query.lastProgress)
    query.explain(True)


def with_user(url: str, who: str) -> str:
    return url.replace("://", f"://{who}")


def refused(do: Callable[[], Any]) -> None:
    try:
        do()
    except PySparkException as error:
        print("refused:", error)


if __name__ == "__main__":
    main(json.loads(sys.stdin.read()))
