"""Telemetry events, as the source gives them, summed up by window, node and queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.windows import Mean, Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NODE_STATS: Final = "warren.node.stats"
QUEUE_STATS: Final = "warren.queue.stats"
# Figures of which a window has the greatest, or the mean.
GREATEST: Final = (
    "messages", "messages_ready", "messages_unacknowledged", "stream_records",
    "head_message_age_ms", "memory_used", "memory_limit", "load", "processors", "connections",
    "connections_in_flow", "channels_in_flow", "queues_in_flow", "connections_blocked",
)  # fmt: skip
MEANS: Final = (
    "publish_rate", "confirm_rate", "deliver_get_rate", "ack_rate", "redeliver_rate",
    "busy_percent", "loop_cpu_percent", "cpu_percent", "steal_percent",
)  # fmt: skip
BACKLOG: Final = "backlog"
"""Messages that are ready and no records of streams: those wait for nobody."""
IS_STREAM: Final = "is_stream"
KINDS: Final = ("connection", "channel", "queue")
_SUM: Final = "sum_of_{}"
_COUNT: Final = "count_of_{}"
_SUMS: Final = (
    *(f"{kind}_flow_events" for kind in KINDS), *(f"{kind}_flow_ms" for kind in KINDS),
    "connection_blocked_events", "promotions", "synchronisations", "alarms",
)  # fmt: skip


def summed_up(events: DataFrame, window_s: int) -> DataFrame:
    """Return a row for each window of each node, and of each queue that a node told of."""
    headers = F.col("headers")
    kind = F.col("routing_key")
    # Connections and channels have figures of the same names, which are parts of their node's.
    has_figures = kind.isin(NODE_STATS, QUEUE_STATS)
    window_ms = window_s * 1000
    at_ms = headers["timestamp_in_ms"].cast("bigint")
    name_and_vhost = F.concat(headers["name"], F.lit(" in "), headers["vhost"])
    shaped = events.select(
        (F.floor(at_ms / window_ms) * window_ms).cast("bigint").alias("start_ms"),
        kind.alias("event"),
        F.coalesce(headers["node"], F.lit("")).alias("node"),
        F.when(kind == QUEUE_STATS, name_and_vhost).otherwise("").alias("subject"),
        headers["state"].alias("state"),
        headers["state_before"].alias("state_before"),
        headers["duration_ms"].cast("double").alias("duration_ms"),
        (headers["type"] == "stream").cast("double").alias(IS_STREAM),
        *(
            F.when(has_figures, headers[name].cast("double")).alias(name)
            for name in (*GREATEST, *MEANS)
        ),
    )
    ready = F.col("messages_ready")
    is_stream_queue = (F.col("event") == QUEUE_STATS) & (F.col(IS_STREAM) == 1.0)
    backlog = F.when(is_stream_queue, 0.0).otherwise(
        ready - F.coalesce(F.col("stream_records"), F.lit(0.0))
    )
    known = shaped.filter(F.col("start_ms").isNotNull()).withColumn(BACKLOG, backlog)
    return known.groupBy("start_ms", "node", "subject").agg(*_aggregates())


def _aggregates() -> list[Column]:
    found = [F.max(name).alias(name) for name in (*GREATEST, BACKLOG, IS_STREAM)]
    for name in MEANS:
        found += [F.sum(name).alias(_SUM.format(name)), F.count(name).alias(_COUNT.format(name))]
    event = F.col("event")
    for kind in KINDS:
        is_kind = event == f"warren.{kind}.state"
        # An episode that only ends in a window was there in it, too.
        in_flow = is_kind & ((F.col("state") == "flow") | (F.col("state_before") == "flow"))
        held_ms = F.when(is_kind & (F.col("state_before") == "flow"), F.col("duration_ms"))
        found.append(F.count_if(in_flow).alias(f"{kind}_flow_events"))
        found.append(F.sum(held_ms).alias(f"{kind}_flow_ms"))
    blocked = (event == "warren.connection.state") & (F.col("state") == "blocked")
    found.append(F.count_if(blocked).alias("connection_blocked_events"))
    found.append(F.count_if(event == "warren.mirror.promoted").alias("promotions"))
    found.append(F.count_if(event == "warren.sync.started").alias("synchronisations"))
    found.append(F.count_if(event == "alarm.set").alias("alarms"))
    return found


def window_of(row: dict[str, Any]) -> Window:
    """Return a collected row of `summed_up` as a window; what is 0 or unknown is left out."""
    means: dict[str, Mean] = {
        name: (row[_SUM.format(name)], row[_COUNT.format(name)])
        for name in MEANS
        if row[_COUNT.format(name)]
    }
    return Window(
        row["start_ms"],
        row["node"],
        row["subject"],
        greatest={
            name: row[name] for name in (*GREATEST, BACKLOG, IS_STREAM) if row[name] is not None
        },
        sums={name: float(row[name]) for name in _SUMS if row[name]},
        means=means,
    )
