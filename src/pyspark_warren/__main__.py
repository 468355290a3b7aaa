"""`python -m pyspark_warren URLS QUEUE`: whether Spark can read a queue, and what it sees there.

As JSON: how many rows and bytes, and which columns. `warren demo` runs it, as a process of its own,
which it can end by one id with the machine that Spark starts.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql.functions import count, length, sum  # noqa: A004 - a column's sum

from pyspark_warren.session import local_session


def main(urls: str, queue: str) -> None:
    spark = local_session()
    messages = spark.read.format("warren").option("url", urls).option("queue", queue).load()
    total = messages.agg(count("*").alias("rows"), sum(length("value")).alias("bytes"))
    found = {**total.collect()[0].asDict(), "columns": messages.columns}
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
