"""Comparing what nodes have: the rows of `store_source`, joined by Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.audited import DUPLICATE, SHOWN_MAX, Absent, Difference, NodeFigures
from pyspark_warren.jobs.findings import CHUNK, DAMAGE, FILES, ID, LOST, MESSAGE, QUEUE, STREAM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SUM: Final = "n_{}"
_KEY: Final = ("vhost", "queue")


def figures(rows: DataFrame, nodes: list[str]) -> dict[str, NodeFigures]:
    found = {node: NodeFigures() for node in nodes}
    counted = rows.groupBy("node", "kind").agg(
        F.count(F.lit(1)).alias("count"),
        F.sum("bytes").alias("bytes"),
        F.sum("records").alias("records"),
    )
    for row in counted.collect():
        node = found[row["node"]]
        count, size = row["count"], row["bytes"]
        match row["kind"]:
            case kind if kind == QUEUE:
                node.queues = count
            case kind if kind == MESSAGE:
                node.messages, node.live_bytes = count, size
            case kind if kind == LOST:
                node.lost = count
            case kind if kind == STREAM:
                node.streams = count
            case kind if kind == CHUNK:
                node.records = row["records"]
            case kind if kind == FILES:
                node.file_bytes = size
    return found


def absent(rows: DataFrame, nodes: list[str], copies: int) -> list[Absent]:
    """Return the queues and streams that are on fewer nodes than that."""
    there = rows.filter(F.col("kind").isin(QUEUE, STREAM))
    by_queue = there.groupBy("kind", *_KEY).agg(F.collect_set("node").alias("on"))
    lacking = by_queue.filter(F.size("on") < min(copies, len(nodes)))
    return [
        Absent(
            row.kind, row.vhost, row.queue,
            tuple(node for node in nodes if node in row.on),
            tuple(node for node in nodes if node not in row.on),
        )
        for row in lacking.orderBy("kind", *_KEY).limit(SHOWN_MAX).collect()
    ]  # fmt: skip


def damage(rows: DataFrame) -> list[str]:
    found = rows.filter(F.col("kind") == DAMAGE).select("node", "text").limit(SHOWN_MAX)
    lost = rows.filter(F.col("kind") == LOST).select("node", "queue", "sequence").limit(SHOWN_MAX)
    return [f"{row.node}: {row.text}" for row in found.collect()] + [
        f"{row.node}: message {row.sequence} of {row.queue!r} cannot be read"
        for row in lost.collect()
    ]


def message_differences(rows: DataFrame, nodes: list[str]) -> list[Difference]:
    """Join all nodes' messages by queue and hash, as a sum for each node."""
    sums = [
        F.sum(F.when(F.col("node") == node, 1).otherwise(0)).alias(_SUM.format(number))
        for number, node in enumerate(nodes)
    ]
    messages = rows.filter(F.col("kind") == MESSAGE)
    joined = messages.groupBy(*_KEY, "hash").agg(F.max("message_id").alias("message_id"), *sums)
    queues = rows.filter(F.col("kind") == QUEUE).groupBy(*_KEY)
    having = queues.agg(F.collect_set("node").alias("having"))
    counts = F.array(*(F.col(_SUM.format(number)) for number in range(len(nodes))))
    names = F.array(*(F.lit(node) for node in nodes))
    # A node that has nothing of the queue is told of once, by `absent`.
    copies = F.map_filter(
        F.map_from_arrays(names, counts), lambda node, _: F.array_contains("having", node)
    )
    compared = joined.join(having, [*_KEY]).withColumn("copies", copies)
    values = F.map_values("copies")
    kind = (
        F.when(F.array_min(values) == 0, "missing")
        .when(F.array_min(values) != F.array_max(values), "divergent")
        .when(F.array_max(values) > 1, DUPLICATE)
    )
    found = compared.withColumn("kind", kind).filter(F.col("kind").isNotNull())
    chosen = found.orderBy(F.col("kind") == DUPLICATE, *_KEY, "hash").limit(SHOWN_MAX)
    columns = ("kind", "vhost", "queue", "hash", "message_id", "copies")
    return [_difference(row.asDict()) for row in chosen.select(*columns).collect()]


def chunk_differences(rows: DataFrame) -> list[Difference]:
    """Compare streams' chunks by offset, from the first offset on that a copy still has.

    Retention removes whole segments, on each node for itself: what one copy has removed already
    and another has not is no difference.
    """
    chunks = rows.filter(F.col("kind") == CHUNK)
    having = (
        rows.filter(F.col("kind") == STREAM)
        .join(
            chunks.groupBy("node", *_KEY).agg(F.min("sequence").alias("first")),
            ["node", *_KEY],
            "left",
        )
        .groupBy(*_KEY)
        .agg(F.collect_list(F.struct("node", "first")).alias("having"))
    )
    by_hash = chunks.groupBy(*_KEY, "sequence", "records", "hash").agg(
        F.collect_set("node").alias("on")
    )
    expected = F.transform(
        # A copy without any chunk lacks all of them.
        F.filter("having", lambda one: F.coalesce(one["first"], F.lit(0)) <= F.col("sequence")),
        lambda one: one["node"],
    )
    at_offset = by_hash.groupBy(*_KEY, "sequence").agg(F.count(F.lit(1)).alias("versions"))
    compared = (
        by_hash.join(having, [*_KEY])
        .join(at_offset, [*_KEY, "sequence"])
        .withColumn("lacking", F.array_except(expected, "on"))
    )
    differing = compared.filter(F.size("lacking") > 0)
    kind = F.when(F.col("versions") > 1, "divergent").otherwise("missing")
    chosen = differing.withColumn("kind", kind).orderBy(*_KEY, "sequence", "hash").limit(SHOWN_MAX)
    return _joined(
        Difference(
            row.kind, row.vhost, row.queue, "", None,
            {**dict.fromkeys(sorted(row.on), 1), **dict.fromkeys(sorted(row.lacking), 0)},
            row.sequence, row.sequence + row.records,
        )
        for row in chosen.collect()
    )  # fmt: skip


def _joined(found: Iterable[Difference]) -> list[Difference]:
    """Make one difference of those that follow each other and say the same."""

    def alike(one: Difference) -> tuple[object, ...]:
        return one.kind, one.vhost, one.queue, sorted(one.copies.items())

    joined: list[Difference] = []
    for one in sorted(found, key=lambda one: (*alike(one), one.offset)):
        last = joined[-1] if joined else None
        if last is not None and alike(last) == alike(one) and last.end == one.offset:
            joined[-1] = replace(last, end=one.end)
        else:
            joined.append(one)
    return joined


def confirmed_missing(spark: SparkSession, rows: DataFrame, log: str) -> list[str]:
    ids = spark.read.text(log).select(F.trim("value").alias("message_id"))
    there = rows.filter(F.col("kind").isin(MESSAGE, ID)).select("message_id").distinct()
    missing = ids.filter(F.col("message_id") != "").join(there, "message_id", "left_anti")
    return [row.message_id for row in missing.limit(SHOWN_MAX).collect()]


def _difference(row: dict[str, Any]) -> Difference:
    return Difference(**{**row, "copies": dict(row["copies"])})
