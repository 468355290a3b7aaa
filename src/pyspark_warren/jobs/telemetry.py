"""`warren pipeline telemetry`: what a broker tells of itself, window by window, and what it means.

    amq.rabbitmq.event ─► stream ─► events ─► windows by node and queue, with a watermark ─► report

Windows are updated batch by batch, and what a batch says of a window replaces what was said before.
Each batch's windows are kept in a file under its number, so that a batch that is run again writes
the same file, and a report can be made of all of them. docs/TELEMETRY.md has the events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.diagnosis import Diagnosis, Held, diagnose
from pyspark_warren.jobs.files import Files
from pyspark_warren.jobs.queries import run_query
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.options import parse_source_options
from pyspark_warren.reading import declare_if_asked, open_client
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EXCHANGE: Final = "amq.rabbitmq.event"
WINDOWS: Final = "windows"
CHECKPOINT: Final = "checkpoint"
OFFSETS_PER_BATCH: Final = 200_000
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
        str, typer.Option(metavar="PATH", help="Where windows are kept, and how far this is.")
    ]
    queue: Annotated[
        str, typer.Option(help="The stream with the events; declared and bound if it is not there.")
    ] = "telemetry"
    exchange: Annotated[
        str, typer.Option(help="To bind it to; '' to take the stream as it is.")
    ] = EXCHANGE
    starting_offsets: Annotated[
        str, typer.Option(help="Where to begin: earliest, latest, an offset or a moment.")
    ] = "earliest"
    window_s: Annotated[int, typer.Option(min=1, help="Seconds in a window.")] = 10
    late_s: Annotated[
        int, typer.Option(min=1, help="Events that come later than this do not count.")
    ] = 60
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there and end, instead of going on.")
    ] = False
    every_s: Annotated[float, typer.Option(min=0, help="Seconds from one batch to the next.")] = (
        10.0
    )
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write an HTML report with plots, after each batch."),
    ] = None

    def source(self) -> dict[str, str]:
        """As options of the source."""
        given = {
            **self.connection(),
            "queue": self.queue,
            "startingOffsets": self.starting_offsets,
            "maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH),
        }
        return {**given, "exchange": self.exchange, "routingKey": "#"} if self.exchange else given


@dataclass(frozen=True, slots=True)
class Window:
    """What one node told, of itself or of one of its queues (`subject`), in one window."""

    start_ms: int
    node: str
    subject: str
    figures: dict[str, float | None]

    def figure(self, name: str) -> float:
        return self.figures.get(name) or 0.0

    @property
    def held(self) -> Held:
        """By figures, which are looked at now and then, or by states, which are told of."""

        def most(figure: str, kind: str) -> int:
            return int(max(self.figure(figure), self.figure(f"{kind}_flow_events")))

        return Held(
            most("connections_in_flow", "connection"),
            most("channels_in_flow", "channel"),
            most("queues_in_flow", "queue"),
            int(max(self.figure("connections_blocked"), self.figure("connection_blocked_events"))),
        )


@dataclass
class Telemetry:
    """All windows, in order."""

    windows: list[Window] = field(default_factory=list)

    @property
    def nodes(self) -> list[str]:
        return sorted({window.node for window in self.windows if window.node})

    def of_node(self, node: str) -> list[Window]:
        return [window for window in self.windows if (window.node, window.subject) == (node, "")]

    def of_queues(self) -> dict[str, list[Window]]:
        found: dict[str, list[Window]] = {}
        for window in self.windows:
            if window.subject:
                found.setdefault(window.subject, []).append(window)
        return found

    def diagnosis(self, node: str) -> Diagnosis:
        return diagnose(window.held for window in self.of_node(node))


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
    return job.windows()


def windowed(events: DataFrame, window_s: int, late_s: int) -> DataFrame:
    """Events as the source gives them, summed up in windows by node and by queue."""
    headers = F.col("headers")
    kind = F.col("routing_key")
    vhost_and_name = F.concat(headers["vhost"], F.lit("/"), headers["name"])
    shaped = events.select(
        F.timestamp_millis(headers["timestamp_in_ms"].cast("bigint")).alias("at"),
        kind.alias("event"),
        F.coalesce(headers["node"], F.lit("")).alias("node"),
        F.when(kind == "warren.queue.stats", vhost_and_name).otherwise("").alias("subject"),
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
        self._seen = 0

    def run(self) -> None:
        options = self._options
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
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{options.every_s} seconds").start()

    def _keep(self, rows: DataFrame, batch: int) -> None:
        lines = [json.dumps(_plain(row.asDict())) for row in rows.collect()]
        if not lines:
            return
        path = f"{WINDOWS}/{batch:010d}.json"
        self._files.delete(path)
        self._files.write(path, "\n".join(lines))
        self._seen += len(lines)
        self._watch.advance(Progress(self._seen, detail=f"windows; batch {batch}"))
        if not self._options.once:
            self._report()

    def _report(self) -> None:
        if self._options.report is not None:
            from pyspark_warren.jobs.telemetry_report import report_of

            report_of(self.windows()).write(self._options.report)

    def windows(self) -> Telemetry:
        """What the newest batch says of each window."""
        latest: dict[tuple[int, str, str], Window] = {}
        for name in self._files.names(WINDOWS):
            for line in self._files.read(f"{WINDOWS}/{name}").splitlines():
                window = Window(**json.loads(line))
                latest[window.start_ms, window.node, window.subject] = window
        return Telemetry([latest[key] for key in sorted(latest)])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    start = row.pop("window")["start"]
    node, subject = row.pop("node"), row.pop("subject")
    return {
        "start_ms": round(start.timestamp() * 1000),
        "node": node,
        "subject": subject,
        "figures": {name: value for name, value in row.items() if value is not None},
    }
