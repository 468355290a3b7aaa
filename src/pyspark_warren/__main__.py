"""`python -m pyspark_warren URLS QUEUE`: whether Spark can read a queue, and what it sees there.

As JSON: how many rows and bytes, and which columns. `warren demo` runs it, as a process of its own,
which it can end by one id with the machine that Spark starts.
"""

from __future__ import annotations

import json
import os
import sys


def main(urls: str, queue: str) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import count, length, sum  # noqa: A004 - a column's sum

    from pyspark_warren import register
    from pyspark_warren.java import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("warren demo")
    spark = builder.config(map=settings).getOrCreate()
    register(spark)
    messages = spark.read.format("warren").option("url", urls).option("queue", queue).load()
    total = messages.agg(count("*").alias("rows"), sum(length("value")).alias("bytes"))
    found = {**total.collect()[0].asDict(), "columns": messages.columns}
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
