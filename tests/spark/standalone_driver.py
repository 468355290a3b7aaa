"""What the test of a standalone cluster has it do: a lake, and one big read, in one session."""

from __future__ import annotations

import sys

from pyspark_warren.jobs import IngestOptions, ingest
from pyspark_warren.jobs.queries import patiently
from pyspark_warren.jobs.session import SessionOptions, make_session


def main(master: str, url: str, queue: str, place: str, offsets_max: str) -> None:
    conf = [
        "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1",
        "spark.driver.memory=512m", "spark.executor.memory=512m", "spark.executor.cores=1",
    ]  # fmt: skip
    spark = make_session("test", SessionOptions(master=master, conf=conf))
    options = IngestOptions(
        url=url, queue=queue, lake=f"{place}/lake", once=True, offsets_max=int(offsets_max)
    )
    ingest(spark, options)
    reader = spark.read.format("warren").option("url", url).option("queue", queue)
    reader = reader.option("minPartitions", "4")
    patiently(lambda: reader.load().write.mode("overwrite").parquet(f"{place}/read"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
