"""`warren pipeline telemetry`: sums up a broker's telemetry in windows, and names the bottleneck.

    amq.rabbitmq.event ─► stream ─► events ─► windows by node and queue ─► report

Each batch is a span of offsets, which Spark sums up. The result is small; the job merges it into
the windows (`windows.py`) and keeps it together with the offset behind it. So a window may get
events however late they are, and a job that is killed goes on where it was. A streaming query would
not do: with Spark Connect its code for each batch runs on the server, where the windows are not.
docs/TELEMETRY.md has the events.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pyspark_warren.errors import DataLost
from pyspark_warren.jobs.batch_lines import Batch, lag_of
from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import collected
from pyspark_warren.jobs.reports import check_writable
from pyspark_warren.jobs.state_files import StateFiles
from pyspark_warren.jobs.telemetry_events import summed_up, window_of
from pyspark_warren.jobs.telemetry_report import report_of
from pyspark_warren.jobs.watching import Watch
from pyspark_warren.jobs.windows import Telemetry, WindowFiles
from pyspark_warren.options import parse_source_options
from pyspark_warren.reading import declare_if_asked, open_client, resolve
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_warren.http_client import Extent, QueueClient

EXCHANGE: Final = "amq.rabbitmq.event"
OFFSETS_PER_BATCH: Final = 200_000
PAUSE_S: Final = 0.2
"""At least so long the job waits when there was nothing to read."""
COLUMNS: Final = "routing_key,headers"
"""Events have nothing else to read."""


@dataclass(frozen=True, kw_only=True)
class TelemetryOptions(BrokerOptions):
    """Options of the job: the events to take, and where to keep and show what they tell."""

    state: Annotated[
        str,
        Parameter(
            metavar="PATH",
            help="Directory, here or in an object store, where the job keeps its windows and the "
            "offset where it goes on.",
        ),
    ]
    queue: Annotated[
        str, Parameter(help="Stream with the events; declared and bound if there is none.")
    ] = "telemetry"
    exchange: Annotated[
        str, Parameter(help="Exchange to bind the stream to; '' to take the stream as it is.")
    ] = EXCHANGE
    starting_offsets: Annotated[
        str, Parameter(help="Where a new state begins: earliest, latest, an offset or a moment.")
    ] = "earliest"
    window_s: Annotated[int, Parameter(min=1, help="Length of a window, in seconds.")] = 10
    once: Annotated[
        bool, Parameter(flag="--once", help="Take what is there and end, instead of going on.")
    ] = False
    every_s: Annotated[
        float, Parameter(min=0, help="Seconds from the beginning of one batch to the next.")
    ] = 10.0
    report: Annotated[
        str | None,
        Parameter(metavar="FILE", help="Write an HTML report with plots, after each batch."),
    ] = None

    def check(self) -> None:
        parse_source_options(self.source())
        check_writable(self.report)

    def source(self) -> dict[str, str]:
        """Return the options of the source."""
        given = {
            **self.connection(),
            "queue": self.queue,
            "startingOffsets": self.starting_offsets,
            "columns": COLUMNS,
        }
        return {**given, "exchange": self.exchange, "routingKey": "#"} if self.exchange else given


def telemetry(
    spark: SparkSession, options: TelemetryOptions, watch: Watch | None = None
) -> Telemetry:
    """Sum up events until there are no more (`once`), or until `watch` is told to stop.

    Raises
    ------
    WarrenError
        If the events cannot be read. What was summed up by then stays, and the next run goes on
        from there.
    """
    options.check()
    options.check_ports()
    job = _Telemetry(spark, options, watch or Watch())
    job.run()
    return job.found()


class _Telemetry:
    def __init__(self, spark: SparkSession, options: TelemetryOptions, watch: Watch) -> None:
        self._spark = spark
        self._options = options
        self._watch = watch
        self._source = parse_source_options(options.source())
        self._windows = WindowFiles(StateFiles(options.state), options.queue, options.window_s)

    def run(self) -> None:
        register(self._spark)
        with open_client(self._source) as client:
            declare_if_asked(self._source, client)
            if self._options.once:
                self._take_until(client, client.extent(self._options.queue).end)
            else:
                self._go_on(client)
        self._report()

    def _take_until(self, client: QueueClient, end: int) -> None:
        while not self._watch.is_stopping and (span := self._span(client)):
            if span[0] >= end:
                return
            self._take(span[0], min(span[1], end))

    def _go_on(self, client: QueueClient) -> None:
        while not self._watch.is_stopping:
            began = time.monotonic()
            span = self._span(client)
            if span is not None:
                self._take(*span)
                self._report()
                if span[1] - span[0] == OFFSETS_PER_BATCH:
                    continue  # there is more already
            left_s = began + self._options.every_s - time.monotonic()
            self._watch.stopping.wait(max(0.0 if span else PAUSE_S, left_s))

    def _span(self, client: QueueClient) -> tuple[int, int] | None:
        """Return the offsets of the next batch, or None if there is nothing to read."""
        extent = client.extent(self._options.queue)
        start = self._begin(client, extent)
        end = min(extent.end, start + OFFSETS_PER_BATCH)
        return (start, end) if start < end else None

    def _begin(self, client: QueueClient, extent: Extent) -> int:
        queue = self._options.queue
        start = self._windows.next_offset
        if start is None:
            start = resolve(client, queue, self._source.batch_start(queue), extent)
        if start > extent.end:
            raise DataLost(
                f"{queue!r} ends at offset {extent.end}, and {self._options.state} has its events "
                f"up to {start}: it was deleted and declared again; give another --state",
                extent.first,
            )
        if start < extent.first:
            gone = extent.first - start
            self._watch.say(f"retention removed {gone:,} events before they were read")
            return extent.first
        return start

    def _take(self, start: int, end: int) -> None:
        began = time.monotonic()
        reader = self._spark.read.format("warren").options(
            **self._options.connection(),
            queue=self._options.queue,
            columns=COLUMNS,
            startingOffsets=str(start),
            endingOffsets=str(end),
            # Retention may remove the oldest of these meanwhile, which is no reason to stop.
            failOnDataLoss="false",
        )
        rows = collected(lambda: summed_up(reader.load(), self._options.window_s))
        told = [window_of(row.asDict()) for row in rows]
        batch = self._windows.batches
        self._windows.keep(told, end)
        lag = lag_of(self._source, {self._options.queue: end})
        self._watch.batch(
            Batch(
                batch, end - start, time.monotonic() - began, lag, "events", f"{len(told)} windows"
            )
        )

    def found(self) -> Telemetry:
        return Telemetry(self._windows.all(), self._options.window_s)

    def _report(self) -> None:
        if self._options.report is not None:
            report_of(self.found()).write(self._options.report)
