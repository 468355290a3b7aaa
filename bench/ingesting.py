"""Millions of messages through a stream into a lake, and how much memory that takes.

The sink publishes them, as a job would, and the ingest job takes them to Delta tables; all of it
goes through the disk, and nothing has to hold it. What the broker, Java and Python's workers have
at most is looked up all the while. The lake is counted in the end: each message is there once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow.compute as pc
from deltalake import DeltaTable

from bench.brokers import warren
from bench.message_bodies import write_bodies
from bench.pipeline import STREAM, Bench, declare, publish
from bench.report import Table, rate
from bench.spark_session import cpu_s_of_tree, memory_mib_of_tree, spark_pid, spark_session

MESSAGES: Final = 5_000_000
NOISE_ROWS: Final = 250_000
"""Published as often as it takes: a fraction of the disk, and still nothing that gets smaller."""
LOOKED_EVERY_S: Final = 0.5
COLUMNS: Final = (
    "step", "rows/s", "seconds", "CPU us/row", "broker's CPU us/row", "broker, peak MiB",
    "Java, peak MiB", "Python workers, peak MiB",
)  # fmt: skip


@dataclass
class Peaks:
    """The most memory that was seen, in MiB."""

    broker: float = 0
    java: float = 0
    workers: float = 0

    def look(self, broker_pid: int, java_pid: int) -> None:
        of_spark = memory_mib_of_tree(java_pid)
        java = of_spark.pop(java_pid, 0.0)
        self.broker = max(self.broker, sum(memory_mib_of_tree(broker_pid).values()))
        self.java = max(self.java, java)
        self.workers = max(self.workers, sum(of_spark.values()))


@contextmanager
def watched(bench: Bench) -> Iterator[Peaks]:
    peaks, is_over = Peaks(), threading.Event()
    java_pid = spark_pid(bench.spark)

    def watch() -> None:
        while not is_over.wait(LOOKED_EVERY_S):
            peaks.look(bench.broker.pid, java_pid)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        is_over.set()
        thread.join()


def ingesting(messages: int, say: Callable[[str], None]) -> Table:
    table = Table(f"{messages:,} messages of 1 KB through a stream into a lake", COLUMNS)
    with (
        TemporaryDirectory(prefix="warren-bench-spark-") as name,
        warren() as broker,
        spark_session(Path(name)) as spark,
    ):
        bench = Bench(spark, broker, Path(name), messages, 1, say)
        declare(broker, STREAM, {"x-queue-type": "stream"})
        write_bodies(Path(bench.place("bodies")), min(messages, NOISE_ROWS), "random")
        add_step(bench, table, "DataFrame -> stream, confirmed", lambda: publish_all(bench))
        lake = bench.place("lake")
        add_step(bench, table, "stream -> lake (pipeline ingest)", lambda: take_in(bench, lake))
        offsets = DeltaTable(f"{lake}/messages").to_pyarrow_table(columns=["offset"])
        found = pc.count_distinct(offsets["offset"]).as_py()
        if found != messages:
            table.failures.append(f"{found} of {messages} messages are in the lake")
    table.notes.append(
        "CPU: of Spark's Java process (a heap of 2 GiB) and its Python workers. Memory: resident, "
        "of all workers together, what they share counted once."
    )
    return table


def publish_all(bench: Bench) -> None:
    for _ in range(-(-bench.rows // NOISE_ROWS)):
        publish(bench, STREAM, ("value",))


def take_in(bench: Bench, lake: str) -> None:
    from pyspark_warren.jobs.ingest import IngestOptions, ingest

    options = IngestOptions(url=bench.http_url, queue=STREAM, lake=lake, once=True)
    ingest(bench.spark, options)


def add_step(bench: Bench, table: Table, name: str, work: Callable[[], None]) -> None:
    bench.say(f"ingest: {name}")
    pid = spark_pid(bench.spark)
    before, broker_before = cpu_s_of_tree(pid), cpu_s_of_tree(bench.broker.pid)
    started = time.monotonic()
    with watched(bench) as peaks:
        work()
    elapsed = time.monotonic() - started
    cpu_us = 1e6 * (cpu_s_of_tree(pid) - before) / bench.rows
    broker_cpu_us = 1e6 * (cpu_s_of_tree(bench.broker.pid) - broker_before) / bench.rows
    table.rows.append(
        (
            name,
            rate(bench.rows / elapsed),
            f"{elapsed:.0f}",
            f"{cpu_us:.2f}",
            f"{broker_cpu_us:.2f}",
            *(f"{mib:,.0f}" for mib in (peaks.broker, peaks.java, peaks.workers)),
        )
    )
