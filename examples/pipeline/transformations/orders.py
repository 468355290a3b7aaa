"""Orders as three tables: as they came, decoded, and summed up by hour."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

spark = SparkSession.active()


@dp.table(comment="Bronze: every record of the stream, as it came.")
def orders_bronze() -> DataFrame:
    return (
        spark.readStream.format("warren")
        .option("url", "http://localhost:15672")
        .option("queue", "orders")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "false")
        .load()
    )


@dp.table(comment="Silver: orders that decode.")
def orders_silver() -> DataFrame:
    body = F.from_json(F.col("value").cast("string"), "id BIGINT, total DOUBLE")
    rows = spark.readStream.table("orders_bronze").withColumn("body", body)
    return rows.filter("body.id is not null").select("offset", "timestamp", "routing_key", "body.*")


@dp.materialized_view(comment="Gold: how many orders, and how much, by hour and kind.")
def orders_gold() -> DataFrame:
    by = spark.read.table("orders_silver").groupBy(
        F.date_trunc("hour", "timestamp").alias("hour"), "routing_key"
    )
    return by.agg(F.count("*").alias("orders"), F.sum("total").alias("total"))
