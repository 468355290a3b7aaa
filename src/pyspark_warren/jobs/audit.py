"""`warren pipeline audit`: whether the copies of mirrored queues are the same, byte for byte.

Every node's files are read (`stores.py`), and each message becomes a hash of its route, properties
and body. Copies are joined by queue and hash; what is not on every node that has the queue, and
equally often, is a finding:

    missing     some copy has none of it (or has it without its body, which is as good as none)
    divergent   all have it, but not equally often
    duplicate   all have it equally often, more than once: the same content was published twice, or
                a message was taken twice; which of them, only a message id can tell
    unconfirmed an id of the producer's log that no copy has
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import patiently
from pyspark_warren.jobs.store_source import StoreSource, parse_nodes
from pyspark_warren.jobs.stores import DAMAGE, FILES, LOST, MESSAGE, QUEUE
from pyspark_warren.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN_MAX: Final = 1_000
_SUM: Final = "n_{}"


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Whose files to compare, and with what."""

    nodes: Annotated[
        str,
        Parameter(
            metavar="NAME=DIR,...",
            help="Nodes and their data directories, or copies of those. They are only read. Let "
            "queues rest meanwhile, or stop the nodes.",
        ),
    ]
    queue: Annotated[str | None, Parameter(help="This queue only.")] = None
    confirmed: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            help="A log of a producer: message ids, one a line, that were confirmed and not "
            "consumed. Each must be there.",
        ),
    ] = None

    def check(self) -> None:
        """Raises InvalidOption if something that is named is not there."""
        parse_nodes(self.nodes)
        is_local = self.confirmed is not None and ":" not in self.confirmed
        if is_local and not Path(str(self.confirmed)).exists():
            raise InvalidOption(f"option confirmed: there is no file {self.confirmed}")


@dataclass(frozen=True, slots=True)
class Difference:
    """A message of which copies differ: on how many places it is, by node."""

    kind: str
    vhost: str
    queue: str
    hash: str
    message_id: str | None
    copies: dict[str, int]


@dataclass
class NodeFigures:
    queues: int = 0
    messages: int = 0
    lost: int = 0
    live_bytes: int = 0
    file_bytes: int = 0

    @property
    def garbage(self) -> float:
        """The share of the files that no message needs: heads, index, and what is not yet gone."""
        return 1 - self.live_bytes / self.file_bytes if self.file_bytes else 0.0


@dataclass
class Audited:
    nodes: dict[str, NodeFigures] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    confirmed_missing: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        real = [one for one in self.differences if one.kind != "duplicate"]
        return not (real or self.damage or self.confirmed_missing)


def audit(spark: SparkSession, options: AuditOptions, watch: Watch | None = None) -> Audited:
    """Compares.

    Raises
    ------
    WarrenError
        If a directory is none of a node.
    """
    return patiently(lambda: _compare(spark, options, watch or Watch()))


def _compare(spark: SparkSession, options: AuditOptions, watch: Watch) -> Audited:
    options.check()
    nodes = list(parse_nodes(options.nodes))
    spark.dataSource.register(StoreSource)
    rows = spark.read.format("warren-stores").option("nodes", options.nodes).load()
    if options.queue is not None:
        of_queue = F.col("kind").isin(QUEUE, MESSAGE, LOST)
        rows = rows.filter(~of_queue | (F.col("queue") == options.queue))
    rows = rows.persist()
    try:
        done = Audited(nodes=_figures(rows, nodes))
        watch.say(f"{sum(node.messages for node in done.nodes.values())} messages on {nodes}")
        done.damage = _damage(rows)
        done.differences = _differences(rows, nodes)
        if options.confirmed is not None:
            done.confirmed_missing = _confirmed_missing(spark, rows, options.confirmed)
        return done
    finally:
        rows.unpersist()


def _figures(rows: DataFrame, nodes: list[str]) -> dict[str, NodeFigures]:
    figures = {node: NodeFigures() for node in nodes}
    counted = rows.groupBy("node", "kind").agg(
        F.count(F.lit(1)).alias("count"), F.sum("bytes").alias("bytes")
    )
    for row in counted.collect():
        node = figures[row["node"]]
        count, size = row["count"], row["bytes"]
        match row["kind"]:
            case kind if kind == QUEUE:
                node.queues = count
            case kind if kind == MESSAGE:
                node.messages, node.live_bytes = count, size
            case kind if kind == LOST:
                node.lost = count
            case kind if kind == FILES:
                node.file_bytes = size
    return figures


def _damage(rows: DataFrame) -> list[str]:
    found = rows.filter(F.col("kind") == DAMAGE).select("node", "text").limit(SHOWN_MAX)
    lost = rows.filter(F.col("kind") == LOST).select("node", "queue", "sequence").limit(SHOWN_MAX)
    return [f"{row.node}: {row.text}" for row in found.collect()] + [
        f"{row.node}: message {row.sequence} of {row.queue!r} cannot be read"
        for row in lost.collect()
    ]


def _differences(rows: DataFrame, nodes: list[str]) -> list[Difference]:
    """One full outer join of all nodes' messages, as a sum for each node."""
    key = ["vhost", "queue"]
    sums = [
        F.sum(F.when(F.col("node") == node, 1).otherwise(0)).alias(_SUM.format(number))
        for number, node in enumerate(nodes)
    ]
    messages = rows.filter(F.col("kind") == MESSAGE)
    joined = messages.groupBy(*key, "hash").agg(F.max("message_id").alias("message_id"), *sums)
    having = (
        rows.filter(F.col("kind") == QUEUE).groupBy(*key).agg(F.collect_set("node").alias("having"))
    )
    counts = F.array(*(F.col(_SUM.format(number)) for number in range(len(nodes))))
    names = F.array(*(F.lit(node) for node in nodes))
    copies = F.map_filter(
        F.map_from_arrays(names, counts), lambda node, _: F.array_contains("having", node)
    )
    compared = joined.join(having, key).withColumn("copies", copies)
    values = F.map_values("copies")
    kind = (
        F.when(F.array_min(values) == 0, "missing")
        .when(F.array_min(values) != F.array_max(values), "divergent")
        .when(F.array_max(values) > 1, "duplicate")
    )
    found = compared.withColumn("kind", kind).filter(F.col("kind").isNotNull())
    chosen = found.orderBy(F.col("kind") == "duplicate", *key, "hash").limit(SHOWN_MAX)
    columns = ("kind", "vhost", "queue", "hash", "message_id", "copies")
    return [Difference(**_plain(row.asDict())) for row in chosen.select(*columns).collect()]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "copies": dict(row["copies"])}


def _confirmed_missing(spark: SparkSession, rows: DataFrame, log: str) -> list[str]:
    ids = spark.read.text(log).select(F.trim("value").alias("message_id"))
    there = rows.filter(F.col("kind") == MESSAGE).select("message_id").distinct()
    missing = ids.filter(F.col("message_id") != "").join(there, "message_id", "left_anti")
    return [row.message_id for row in missing.limit(SHOWN_MAX).collect()]
