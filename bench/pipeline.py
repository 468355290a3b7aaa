"""What it costs to get messages into Spark and out of it, beside what Spark itself costs.

The steady measure is processor time per row, of Spark's Java process and its Python workers; that
of the broker stands beside it. The limit is a Parquet file with the same rows and columns, which
Spark reads with code of its own. Bodies are 1 KB of noise, so that nothing gets smaller by
compression and all of it has to be moved; or of text (`--bodies compressible`).

Each path is run once without being looked at, since Java gets faster while it runs, and then as
often as asked for; the run with the least processor time counts.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from pamqp.commands import Queue

from bench.brokers import Broker, warren
from bench.client import Client
from bench.lake_paths import add_lake
from bench.message_bodies import Bodies, write_bodies
from bench.naive_consumer import consume_naively
from bench.report import Table, rate
from bench.spark_session import cpu_s_of_tree, spark_pid, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 1_000_000
PARTITIONS: Final = (1, 2, 4, 8)
STREAM: Final = "rows"
TARGET: Final = "published"
NAIVE_ROWS: Final = 100_000
ONE_COLUMN: Final = "offset"
PATHS: Final = ("sink", "readers", "lake", "naive")
"""What is measured; `naive` goes with `lake`."""
COLUMNS: Final = (
    "path", "rows/s", "CPU us/row", "broker's CPU us/row", "of the limit, by CPU", "wanted",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Of one run."""

    rows_per_s: float
    cpu_us: float
    broker_cpu_us: float


@dataclass(frozen=True)
class Bench:
    spark: SparkSession
    broker: Broker
    directory: Path
    rows: int
    repeats: int
    say: Callable[[str], None]
    is_driver_counted: bool = False

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.broker.http_port}"

    @property
    def amqp_url(self) -> str:
        return f"amqp://127.0.0.1:{self.broker.port}"

    def place(self, name: str) -> str:
        """A path for files, with none there yet."""
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        return str(path)

    def source(self, partitions: int = 2, **options: str) -> DataFrame:
        reader = self.spark.read.format("warren").option("minPartitions", str(partitions))
        reader = reader.option("url", self.http_url).option("queue", STREAM)
        return reader.options(**options).load()

    def best(self, name: str, work: Callable[[], object]) -> Cost:
        self.say(f"pipeline: {name}")
        work()
        costs = [self.cost(work) for _ in range(self.repeats)]
        best = min(costs, key=lambda cost: cost.cpu_us)
        self.say(f"pipeline: {name}: {best.cpu_us:.2f} us/row, {rate(best.rows_per_s)} rows/s")
        return best

    def cost(self, work: Callable[[], object]) -> Cost:
        pid = os.getpid() if self.is_driver_counted else spark_pid(self.spark)
        before, broker_before = cpu_s_of_tree(pid), cpu_s_of_tree(self.broker.pid)
        started = time.monotonic()
        work()
        elapsed = time.monotonic() - started
        used = cpu_s_of_tree(pid) - before
        used_by_broker = cpu_s_of_tree(self.broker.pid) - broker_before
        if self.is_driver_counted:
            used -= used_by_broker  # the broker is below this process, too
        return Cost(self.rows / elapsed, 1e6 * used / self.rows, 1e6 * used_by_broker / self.rows)


def pipeline(
    rows: int,
    repeats: int,
    say: Callable[[str], None],
    bodies: Bodies = "random",
    paths: Sequence[str] = PATHS,
) -> Table:
    table = Table(f"Spark, local[2], {rows:,} messages of 1 KB, {bodies} bodies", COLUMNS)
    with (
        TemporaryDirectory(prefix="warren-bench-spark-") as name,
        warren() as broker,
        spark_session(Path(name)) as spark,
    ):
        bench = Bench(spark, broker, Path(name), rows, repeats, say)
        declare(broker, STREAM, {"x-queue-type": "stream"})
        write_bodies(Path(bench.place("bodies")), rows, bodies)
        publish(bench, STREAM, ("value",))
        if "sink" in paths:
            add_targets(bench, table)
        if "readers" in paths:
            add_readers(bench, table)
        if "lake" in paths:
            lake = add_lake(bench, table)
            if "naive" in paths:
                compare(lake, add_naive(bench, table), table)
    table.notes.append(
        "CPU: of Spark's Java process and its Python workers. The limit: the same rows and columns "
        f"of a Parquet file. The best of {repeats} runs each, after one to warm up."
    )
    return table


def declare(broker: Broker, queue: str, arguments: dict[str, Any]) -> None:
    client = Client(broker.port)
    client.send(Queue.Declare(queue=queue, durable=True, arguments=arguments))
    client.frame()
    client.close()


def drop(broker: Broker, queue: str) -> None:
    client = Client(broker.port)
    client.send(Queue.Delete(queue=queue))
    client.frame()
    client.close()


def publish(bench: Bench, queue: str, columns: tuple[str, ...], **options: str) -> None:
    frame = bench.spark.read.parquet(str(bench.directory / "bodies")).select(*columns)
    writer = frame.coalesce(2).write.format("warren").mode("append")
    writer.option("url", bench.amqp_url).option("routingKey", queue).options(**options).save()


def compare(lake: Cost, naive: Cost, table: Table) -> None:
    faster, cheaper = lake.rows_per_s / naive.rows_per_s, naive.cpu_us / lake.cpu_us
    table.notes.append(
        f"Rows come {faster:.1f} times as fast from the stream as by pika in foreachBatch, and "
        f"take {cheaper:.1f} times less CPU; wanted are 5 times."
    )


def add_targets(bench: Bench, table: Table) -> None:
    """Each run goes to a queue of its own."""
    add_target(bench, table, "stream", {"x-queue-type": "stream"})
    add_target(bench, table, "queue", {})
    window = {"x-message-deduplication": True, "x-cache-size": bench.rows}
    add_target(bench, table, "queue that deduplicates", window, idColumns="number")


def add_target(
    bench: Bench, table: Table, kind: str, arguments: dict[str, Any], **options: str
) -> None:
    columns = ("value", "number") if options else ("value",)

    def work() -> None:
        drop(bench.broker, TARGET)
        declare(bench.broker, TARGET, arguments)
        publish(bench, TARGET, columns, **options)

    name = f"DataFrame -> {kind}, confirmed"
    wanted = ">= 150 k rows/s" if kind == "queue" else ">= 100 k rows/s"
    add_row(table, name, bench.best(name, work), None, wanted)
    drop(bench.broker, TARGET)


def add_row(table: Table, name: str, cost: Cost, limit: Cost | None, wanted: str) -> None:
    share = "" if limit is None else f"{100 * limit.cpu_us / cost.cpu_us:.0f} %"
    table.rows.append(
        (
            name,
            rate(cost.rows_per_s),
            f"{cost.cpu_us:.2f}",
            f"{cost.broker_cpu_us:.2f}",
            share,
            wanted,
        )
    )


def to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def add_readers(bench: Bench, table: Table) -> None:
    copy = copy_of_stream(bench)
    limit = bench.best("Parquet -> noop", lambda: to_nowhere(bench.spark.read.parquet(copy)))
    add_row(table, "Parquet -> noop (the limit)", limit, None, "")
    path = directory_of_stream(bench)
    local = bench.best("files", lambda: to_nowhere(bench.source(2, path=path)))
    add_row(table, "segments' files -> noop", local, limit, ">= 50 %")
    for partitions in PARTITIONS:
        name = f"range reads -> noop, {partitions} partitions"
        cost = bench.best(name, lambda: to_nowhere(bench.source(partitions)))  # noqa: B023
        add_row(table, name, cost, limit, ">= 100 %" if partitions == 2 else "")
    add_one_column(bench, table, copy)


def copy_of_stream(bench: Bench) -> str:
    """Return a Parquet directory with the rows and columns that the source gives."""
    copy = bench.directory / "copy"
    if not copy.exists():
        bench.source(2).write.parquet(str(copy))
    return str(copy)


def add_one_column(bench: Bench, table: Table, copy: str) -> None:
    read = bench.spark.read.parquet(copy)
    name = f"one column of {len(read.columns)}"
    limit = bench.best(f"Parquet, {name}", lambda: to_nowhere(read.select(ONE_COLUMN)))
    add_row(table, f"Parquet -> noop, {name} (the limit)", limit, None, "")
    cost = bench.best(f"range reads, {name}", lambda: to_nowhere(bench.source().select(ONE_COLUMN)))
    add_row(table, f"range reads -> noop, {name}", cost, limit, ">= 67 %")


def directory_of_stream(bench: Bench) -> str:
    token = base64.b64encode(b"guest:guest").decode()
    url = f"{bench.http_url}/api/warren/streams/%2F/{STREAM}"
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["directory"])


def add_naive(bench: Bench, table: Table) -> Cost:
    """What people write without a source; the driver itself is part of what it costs."""
    naive = replace(bench, rows=min(bench.rows, NAIVE_ROWS), is_driver_counted=True)
    declare(bench.broker, TARGET, {})
    publish(bench, TARGET, ("value",))
    port, rows = bench.broker.port, naive.rows

    def work() -> None:
        consume_naively(bench.spark, port, TARGET, rows, bench.place("naive"))

    bench.say("pipeline: pika in foreachBatch")
    cost = naive.cost(work)
    add_row(table, "pika in foreachBatch -> Parquet", cost, None, "")
    drop(bench.broker, TARGET)
    return cost
