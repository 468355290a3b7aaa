"""`warren pipeline replay`: messages of a lake, or of a span of a stream, published once more.

First the messages are counted, by where they would go; that is the dry run, and without `yes` it is
all. Then they are published, with confirms, batch by batch. A batch that a crash cut short is
published again from its beginning, so each message carries an id that is the same every time (queue
and offset, in `x-deduplication-header`): a queue or exchange that deduplicates takes it once.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.ingest import HOUR_FORMAT
from pyspark_warren.jobs.lake import MESSAGES, Lake
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import patiently, run_query
from pyspark_warren.jobs.session import make_active
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.reading import open_client, resolve
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILES_PER_BATCH: Final = 64
ROUTES_MAX: Final = 1_000
COLUMNS: Final = ("value", "queue", "offset", "exchange", "routing_key", "headers", "properties")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(BrokerOptions):
    """What to publish again, where to, and how fast."""

    lake: Annotated[
        str | None, Parameter(metavar="PATH", help="Read the messages of this lake.")
    ] = None
    queue: Annotated[
        str | None, Parameter(metavar="NAMES", help="Of the lake only these; or read streams.")
    ] = None
    starting_offsets: Annotated[
        str, Parameter(help="Where in streams to begin: earliest, an offset or a moment.")
    ] = "earliest"
    ending_offsets: Annotated[
        str, Parameter(help="And where to end: latest (as of now), an offset or a moment.")
    ] = "latest"
    since: Annotated[
        str | None, Parameter(metavar="MOMENT", help="Only those taken then or later.")
    ] = None
    until: Annotated[
        str | None, Parameter(metavar="MOMENT", help="Only those taken before then.")
    ] = None
    routing_key: Annotated[
        str | None, Parameter(help="Only those with such a key; * and # as in topics.")
    ] = None
    where: Annotated[
        str | None,
        Parameter(metavar="SQL", help="Only those of which this is true: body.total > 100"),
    ] = None
    to_exchange: Annotated[
        str | None, Parameter(help="Where to.", show_default="the exchange they came by")
    ] = None
    to_routing_key: Annotated[
        str | None, Parameter(help="With which key.", show_default="the one they had")
    ] = None
    rate: Annotated[int | None, Parameter(min=1, help="So many messages a second at most.")] = None
    offsets_max: Annotated[
        int, Parameter(min=1, help="So many records of streams in a batch at most.")
    ] = 100_000
    state: Annotated[
        str | None,
        Parameter(metavar="PATH", help="Where it is kept how far a replay is, to go on there."),
    ] = None
    yes: Annotated[
        bool, Parameter(flag="--yes", help="Publish; without it, only say what would be.")
    ] = False


@dataclass
class Replayed:
    """What was found, by exchange and routing key, and whether it was published."""

    routes: dict[tuple[str, str], int] = field(default_factory=dict)
    is_published: bool = False

    @property
    def messages(self) -> int:
        return sum(self.routes.values())


def replay(spark: SparkSession, options: ReplayOptions, watch: Watch | None = None) -> Replayed:
    """Counts what there is to publish, and publishes it if told to.

    Raises
    ------
    WarrenError
        If there is nothing to read from, or the broker refuses a message.
    """
    job = _Replay(spark, options, watch or Watch())
    return job.run()


class _Replay:
    def __init__(self, spark: SparkSession, options: ReplayOptions, watch: Watch) -> None:
        self._spark = spark
        self._options = options
        self._watch = watch
        if (options.lake is None) == (options.queue is None) and options.lake is None:
            raise InvalidOption("give --lake, to read from one, or --queue, to read streams")
        self._sink = self._sink_options()
        register(spark)
        self._ends = {} if options.lake is not None else self._find_ends()

    def run(self) -> Replayed:
        found = patiently(lambda: self._count(self._chosen(self._all())))
        for (exchange, key), count in found.routes.items():
            self._watch.say(f"{count} to exchange {exchange!r} with routing key {key!r}")
        if not self._options.yes:
            self._watch.say("nothing is published; add --yes to do so")
            return found
        self._publish(found.messages)
        found.is_published = True
        return found

    # What

    def _all(self) -> DataFrame:
        options = self._options
        if options.lake is not None:
            return self._spark.read.parquet(self._table(options.lake))
        reader = self._spark.read.format("warren").options(**self._source_options())
        return reader.option("endingOffsets", options.ending_offsets).load()

    def _growing(self) -> DataFrame:
        """The same as a stream, so that it goes batch by batch, and on where it was."""
        options = self._options
        if options.lake is not None:
            table = self._table(options.lake)
            reader = self._spark.readStream.schema(self._spark.read.parquet(table).schema)
            return reader.option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(table)
        given = {**self._source_options(), "maxOffsetsPerTrigger": str(options.offsets_max)}
        rows = self._spark.readStream.format("warren").options(**given).load()
        in_span = F.lit(False)
        for queue, end in self._ends.items():
            in_span = in_span | ((F.col("queue") == queue) & (F.col("offset") < end))
        return rows.filter(in_span)

    def _table(self, root: str) -> str:
        lake = Lake(self._spark, root)
        if not lake.parts(MESSAGES):
            raise InvalidOption(f"option lake: there are no messages in {root}")
        return lake.table(MESSAGES)

    def _source_options(self) -> dict[str, str]:
        queue = self._options.queue
        assert queue is not None, "streams are named"
        given = {"queue": queue, "startingOffsets": self._options.starting_offsets}
        return {**self._options.connection(), **given}

    def _find_ends(self) -> dict[str, int]:
        given = {**self._source_options(), "endingOffsets": self._options.ending_offsets}
        source = parse_source_options(given)
        with open_client(source) as client:
            return {
                queue: resolve(client, queue, source.batch_end(queue), client.extent(queue))
                for queue in source.queues
            }

    def _chosen(self, rows: DataFrame) -> DataFrame:
        options = self._options
        if options.lake is not None and options.queue is not None:
            names = [name.strip() for name in options.queue.split(",")]
            rows = rows.filter(F.col("queue").isin(names))
        for condition in self._conditions():
            rows = rows.filter(condition)
        if options.to_exchange is not None:
            rows = rows.withColumn("exchange", F.lit(options.to_exchange))
        if options.to_routing_key is not None:
            rows = rows.withColumn("routing_key", F.lit(options.to_routing_key))
        return rows

    def _conditions(self) -> list[Column]:
        options = self._options
        found = []
        for text, is_start in ((options.since, True), (options.until, False)):
            if text is None:
                continue
            at = F.lit(_moment(text))
            found.append(F.col("timestamp") >= at if is_start else F.col("timestamp") < at)
            if options.lake is not None:  # whole hours need not be opened
                hour = F.date_format(at, HOUR_FORMAT)
                found.append(F.col("hour") >= hour if is_start else F.col("hour") <= hour)
        if options.routing_key is not None:
            found.append(F.col("routing_key").rlike(topic_expression(options.routing_key)))
        if options.where is not None:
            found.append(F.expr(options.where))
        return found

    def _count(self, rows: DataFrame) -> Replayed:
        counted = rows.groupBy("exchange", "routing_key").count().orderBy(F.desc("count"))
        found = counted.limit(ROUTES_MAX).collect()
        return Replayed({(row["exchange"], row["routing_key"]): row["count"] for row in found})

    # Where to

    def _sink_options(self) -> dict[str, str]:
        given = {**self._options.connection(), "idColumns": "queue,offset"}
        if self._options.rate is not None:
            tasks = self._tasks()
            given["messagesPerSecond"] = str(max(1, self._options.rate // tasks))
        if self._options.yes:
            parse_sink_options(given)
        return given

    def _tasks(self) -> int:
        """As many as run at a time, and no more than there are messages a second."""
        parallelism = self._spark.sparkContext.defaultParallelism
        return max(1, min(parallelism, self._options.rate or parallelism))

    def _publish(self, total: int) -> None:
        with self._state() as state:
            run_query(lambda: self._start(state), self._watch)
        if not self._watch.is_stopping:
            self._watch.advance(Progress(total, total, "published"))

    def _start(self, state: str) -> StreamingQuery:
        make_active(self._spark)
        rows = self._chosen(self._growing()).coalesce(self._tasks())
        if "value" not in rows.columns:
            raise InvalidOption("option lake: it was made without --keep-value, so bodies are gone")
        # Whoever published first is not who publishes now, and the broker would say so.
        properties = F.col("properties").dropFields("user_id")
        rows = rows.select(*COLUMNS).withColumn("properties", properties)
        writer = rows.writeStream.format("warren").options(**self._sink)
        return writer.option("checkpointLocation", state).trigger(availableNow=True).start()

    def _state(self) -> AbstractContextManager[str]:
        if self._options.state is not None:
            return nullcontext(self._options.state)
        return tempfile.TemporaryDirectory(prefix="warren-replay-")


def topic_expression(pattern: str) -> str:
    """Of a topic's binding key: `*` is a word, `#` any number of them.

    Examples
    --------
    >>> topic_expression("a.*")
    '^a\\\\.[^.]+$'
    """
    if pattern == "#":
        return ""
    known = {"#": "#", "*": "[^.]+"}
    words = "\\.".join(known.get(word, re.escape(word)) for word in pattern.split("."))
    words = words.replace("\\.#", "(\\.[^.]+)*").replace("#\\.", "([^.]+\\.)*")
    return f"^{words}$"


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(f"{text!r} is no moment such as 2026-08-01T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
