"""A stream into a lake, beside a copy of Parquet files: as a Delta table, and by Spark's own sink.

The Delta table is filled by the job, `warren pipeline ingest`, from an empty lake to its end: with
the start of the query, commits, and the upkeep that is due. Its driver is Python, too, so here the
driver's processor time counts, for the limit as well.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.pipeline import Bench, Cost
    from bench.report import Table

QUERY_S_MAX: Final = 900


def add_lake(given: Bench, table: Table) -> Cost:
    """Measure what fills a lake; the cost is that of Spark's own sink."""
    from bench.pipeline import add_row, copy_of_stream

    bench = replace(given, is_driver_counted=True)
    copied = bench.spark.read.parquet(copy_of_stream(bench))
    limit = bench.best(
        "Parquet -> Parquet", lambda: copied.write.parquet(bench.place("second copy"))
    )
    add_row(table, "Parquet -> Parquet, zstd (the limit)", limit, None, "")
    cost = bench.best("stream -> Parquet", lambda: query_into_parquet(bench))
    add_row(table, "stream -> Parquet, zstd", cost, limit, ">= 70 %")
    delta = bench.best("stream -> Delta", lambda: ingest_into_delta(bench))
    add_row(table, "stream -> Delta, zstd (pipeline ingest)", delta, limit, ">= 80 %")
    sizes = (mib_in(bench.directory / name) for name in ("second copy", "lake", "delta"))
    table.notes.append(
        "MiB of Parquet files: {:,.0f} copied, {:,.0f}, {:,.0f} Delta.".format(*sizes)
    )
    return cost


def mib_in(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*.parquet")) / 2**20


def query_into_parquet(bench: Bench) -> None:
    from bench.pipeline import STREAM

    lake, checkpoint = bench.place("lake"), bench.place("checkpoint")
    reader = bench.spark.readStream.format("warren").option("minPartitions", "2")
    reader = reader.option("url", bench.http_url).option("queue", STREAM)
    frame = reader.option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start(lake)
    if not query.awaitTermination(QUERY_S_MAX):
        raise RuntimeError("a query came to no end")


def ingest_into_delta(bench: Bench) -> None:
    from bench.pipeline import STREAM
    from pyspark_warren.jobs.ingest import IngestOptions, ingest

    lake = bench.place("delta")
    options = IngestOptions(url=bench.http_url, queue=STREAM, lake=lake, once=True)
    done = ingest(bench.spark, options)
    if done.messages != bench.rows:
        raise RuntimeError(f"{done.messages} of {bench.rows} messages are in the lake")
