"""`warren pipeline telemetry`: what a broker tells of itself, window by window, and what it means.

    amq.rabbitmq.event ─► stream ─► events ─► windows by node and queue, with a watermark ─► report

Windows are updated batch by batch and kept in files (`windows.py`), so that a report can be made of
what earlier runs have seen, too. docs/TELEMETRY.md has the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.files import Files
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import run_query
from pyspark_warren.jobs.reports import check_writable
from pyspark_warren.jobs.telemetry_report import report_of
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.jobs.windows import Telemetry, Window, WindowFiles
from pyspark_warren.options import parse_source_options
from pyspark_warren.reading import declare_if_asked, open_client
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

EXCHANGE: Final = "amq.rabbitmq.event"
CHECKPOINT: Final = "checkpoint"
OFFSETS_PER_BATCH: Final = 200_000
PARTITIONS_KEY: Final = "spark.sql.shuffle.partitions"
STATE_PARTITIONS: Final = "2"
# Taken from figures: their greatest, or their mean, in a window.
GREATEST: Final = (
    "messages", "messages_ready", "messages_unacknowledged", "head_message_age_ms", "memory_used",
    "connections", "connections_in_flow", "channels_in_flow", "queues_in_flow",
    "connections_blocked",
)  # fmt: skip
MEANS: Final = (
    "publish_rate", "confirm_rate", "deliver_get_rate", "ack_rate", "busy_percent", "cpu_percent",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TelemetryOptions(BrokerOptions):
    """Which events to take, and what to make of them."""

    state: Annotated[
        str, Parameter(metavar="PATH", help="Where windows are kept, and how far this is.")
    ]
    queue: Annotated[
        str, Parameter(help="The stream with the events; declared and bound if it is not there.")
    ] = "telemetry"
    exchange: Annotated[str, Parameter(help="To bind it to; '' to take the stream as it is.")] = (
        EXCHANGE
    )
    starting_offsets: Annotated[
        str, Parameter(help="Where to begin: earliest, latest, an offset or a moment.")
    ] = "earliest"
    window_s: Annotated[int, Parameter(min=1, help="Seconds in a window.")] = 10
    late_s: Annotated[
        int, Parameter(min=1, help="Events that come later than this do not count.")
    ] = 60
    once: Annotated[
        bool, Parameter(flag="--once", help="Take what is there and end, instead of going on.")
    ] = False
    every_s: Annotated[float, Parameter(min=0, help="Seconds from one batch to the next.")] = 10.0
    report: Annotated[
        str | None,
        Parameter(metavar="FILE", help="Write an HTML report with plots, after each batch."),
    ] = None

    def check(self) -> None:
        parse_source_options(self.source())
        check_writable(self.report)

    def source(self) -> dict[str, str]:
        """As options of the source."""
        given = {
            **self.connection(),
            "queue": self.queue,
            "startingOffsets": self.starting_offsets,
            "maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH),
        }
        return {**given, "exchange": self.exchange, "routingKey": "#"} if self.exchange else given


def telemetry(
    spark: SparkSession, options: TelemetryOptions, watch: Watch | None = None
) -> Telemetry:
    """Until there is no more (`once`), or until `watch` is told to stop.

    Raises
    ------
    WarrenError
        If the events cannot be read.
    """
    job = _Telemetry(spark, options, watch or Watch())
    job.run()
    return job.found()


def windowed(events: DataFrame, window_s: int, late_s: int) -> DataFrame:
    """Events as the source gives them, summed up in windows by node and by queue."""
    headers = F.col("headers")
    kind = F.col("routing_key")
    name_and_vhost = F.concat(headers["name"], F.lit(" in "), headers["vhost"])
    shaped = events.select(
        F.timestamp_millis(headers["timestamp_in_ms"].cast("bigint")).alias("at"),
        kind.alias("event"),
        F.coalesce(headers["node"], F.lit("")).alias("node"),
        F.when(kind == "warren.queue.stats", name_and_vhost).otherwise("").alias("subject"),
        headers["state"].alias("state"),
        headers["state_before"].alias("state_before"),
        headers["duration_ms"].cast("double").alias("duration_ms"),
        *(headers[name].cast("double").alias(name) for name in (*GREATEST, *MEANS)),
    )
    watched = shaped.filter(F.col("at").isNotNull()).withWatermark("at", f"{late_s} seconds")
    by = watched.groupBy(F.window("at", f"{window_s} seconds"), "node", "subject")
    return by.agg(*_aggregates())


def _aggregates() -> list[Column]:
    found = [F.max(name).alias(name) for name in GREATEST]
    found += [F.avg(name).alias(name) for name in MEANS]
    event = F.col("event")
    for kind in ("connection", "channel", "queue"):
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


class _Telemetry:
    def __init__(self, spark: SparkSession, options: TelemetryOptions, watch: Watch) -> None:
        self._spark = spark
        self._options = options
        self._watch = watch
        self._files = Files(spark, options.state)
        self._windows = WindowFiles(self._files)
        self._seen = 0

    def run(self) -> None:
        options = self._options
        options.check()
        register(self._spark)
        source = parse_source_options(options.source())
        with open_client(source) as client:
            declare_if_asked(source, client)
            client.extent(options.queue)
        run_query(self._start, self._watch)
        self._report()

    def _start(self) -> StreamingQuery:
        options = self._options
        rows = self._spark.readStream.format("warren").options(**options.source()).load()
        writer = windowed(rows, options.window_s, options.late_s).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", self._files.whole(CHECKPOINT))
        writer = writer.foreachBatch(self._keep)
        if options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{options.every_s} seconds")
        return self._started(writer)

    def _started(self, writer: DataStreamWriter) -> StreamingQuery:
        """Windows are few, and each part of their state costs files in every batch."""
        before = self._spark.conf.get(PARTITIONS_KEY)
        self._spark.conf.set(PARTITIONS_KEY, STATE_PARTITIONS)
        try:
            return writer.start()  # which takes a copy of the settings
        finally:
            self._spark.conf.set(PARTITIONS_KEY, str(before))

    def _keep(self, rows: DataFrame, batch: int) -> None:
        told = [_window(row.asDict()) for row in rows.collect()]
        if not told:
            return
        self._windows.keep(batch, told)
        self._seen += len(told)
        self._watch.advance(Progress(self._seen, detail=f"batch {batch}", unit="windows"))
        if not self._options.once:
            self._report()

    def found(self) -> Telemetry:
        return Telemetry(self._windows.all(), self._options.window_s)

    def _report(self) -> None:
        if self._options.report is not None:
            report_of(self.found()).write(self._options.report)


def _window(row: dict[str, Any]) -> Window:
    start = row.pop("window")["start"]
    node, subject = row.pop("node"), row.pop("subject")
    figures = {name: value for name, value in row.items() if value is not None}
    return Window(round(start.timestamp() * 1000), node, subject, figures)
