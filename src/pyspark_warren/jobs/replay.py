"""`warren pipeline replay`: messages of a lake, or of a span of a stream, published once more.

First the messages are counted, by where they would go; that is the dry run, and without `yes` it is
all. Then they are published, with confirms, batch by batch. A batch that a crash cut short is
published again from its beginning, so each message carries an id that is the same every time (queue
and offset, in `x-deduplication-header`): a queue or exchange that deduplicates takes it once.

How far a replay is, is kept by offsets: for a lake by the job itself (`replay_state`), so that
putting the lake's files together changes nothing; for streams in a checkpoint of Spark's.
"""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.lake_replay import LakeReplay
from pyspark_warren.jobs.parallelism import parallelism_of
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import patiently, run_query
from pyspark_warren.jobs.replay_choice import Choice, Routes, moment_of
from pyspark_warren.jobs.replay_state import ReplayState
from pyspark_warren.jobs.session import make_active
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.reading import open_client, resolve
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
    offsets_max: Annotated[int, Parameter(min=1, help="Offsets in a batch, at most.")] = 100_000
    state: Annotated[
        str | None,
        Parameter(metavar="PATH", help="Where to keep how far the replay is, to go on from there."),
    ] = None
    yes: Annotated[
        bool, Parameter(flag="--yes", help="Publish; without it, only say what would be.")
    ] = False


@dataclass
class Replayed:
    """What was found, by exchange and routing key, and whether it was published."""

    routes: Routes = field(default_factory=dict)
    is_published: bool = False

    @property
    def messages(self) -> int:
        return sum(self.routes.values())


def replay(spark: SparkSession, options: ReplayOptions, watch: Watch | None = None) -> Replayed:
    """Count what there is to publish, and publish it if told to.

    Raises
    ------
    WarrenError
        If there is nothing to read from, or the broker refuses a message.
    """
    return _Replay(spark, options, watch or Watch()).run()


class _Replay:
    def __init__(self, spark: SparkSession, options: ReplayOptions, watch: Watch) -> None:
        if options.lake is None and options.queue is None:
            raise InvalidOption("give --lake, to read from one, or --queue, to read streams")
        register(spark)
        self._spark = spark
        self._options = options
        self._watch = watch
        self._tasks = self._parallelism()
        self._sink = self._sink_options()
        self._choice = Choice(
            moment_of(options.since), moment_of(options.until), options.routing_key, options.where,
            options.to_exchange, options.to_routing_key,
        )  # fmt: skip

    def run(self) -> Replayed:
        if self._options.lake is not None:
            return self._run_lake(self._options.lake)
        ends = self._find_ends()
        found = Replayed(patiently(lambda: self._choice.routes(self._span())))
        if self._show(found):
            self._publish_streams(ends)
            self._done(found)
        return found

    def _show(self, found: Replayed) -> bool:
        """Say what would be published; return True if it is to be."""
        for (exchange, key), count in found.routes.items():
            self._watch.say(f"{count} to exchange {exchange!r} with routing key {key!r}")
        if not self._options.yes:
            self._watch.say("nothing is published; add --yes to do so")
        return self._options.yes

    def _done(self, found: Replayed) -> None:
        found.is_published = True
        if not self._watch.is_stopping:
            self._watch.advance(Progress(found.messages, found.messages, "published"))

    # From a lake

    def _run_lake(self, lake: str) -> Replayed:
        options = self._options
        queues = options.queue and [name.strip() for name in options.queue.split(",")]
        rows = LakeReplay(self._spark, lake, queues or None, self._choice, self._tasks)
        state = ReplayState(options.state, self._identity())
        state.load()
        found = Replayed(rows.routes(state))
        if self._show(found):
            rows.publish(self._sink, state, options.offsets_max, self._watch)
            self._done(found)
        return found

    def _identity(self) -> dict[str, str | None]:
        """Return the options that make this replay another one when they change."""
        names = (
            "lake", "queue", "since", "until", "routing_key", "where", "to_exchange",
            "to_routing_key",
        )  # fmt: skip
        return {name: getattr(self._options, name) for name in names}

    # From streams

    def _span(self) -> DataFrame:
        reader = self._spark.read.format("warren").options(**self._source_options())
        return reader.option("endingOffsets", self._options.ending_offsets).load()

    def _growing(self, ends: dict[str, int]) -> DataFrame:
        """Return the same as a stream, so that it goes batch by batch, and on where it was."""
        given = {**self._source_options(), "maxOffsetsPerTrigger": str(self._options.offsets_max)}
        rows = self._spark.readStream.format("warren").options(**given).load()
        in_span = F.lit(False)
        for queue, end in ends.items():
            in_span = in_span | ((F.col("queue") == queue) & (F.col("offset") < end))
        return rows.filter(in_span)

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

    def _publish_streams(self, ends: dict[str, int]) -> None:
        with self._checkpoint() as checkpoint:
            run_query(lambda: self._start(ends, checkpoint), self._watch)

    def _start(self, ends: dict[str, int], checkpoint: str) -> StreamingQuery:
        make_active(self._spark)
        rows = self._choice.messages(self._growing(ends)).coalesce(self._tasks)
        writer = rows.writeStream.format("warren").options(**self._sink)
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    def _checkpoint(self) -> AbstractContextManager[str]:
        if self._options.state is not None:
            return nullcontext(self._options.state)
        return tempfile.TemporaryDirectory(prefix="warren-replay-")

    # Where to

    def _sink_options(self) -> dict[str, str]:
        given = {**self._options.connection(), "idColumns": "queue,offset"}
        if self._options.rate is not None:
            given["messagesPerSecond"] = str(max(1, self._options.rate // self._tasks))
        if self._options.yes:
            parse_sink_options(given)
        return given

    def _parallelism(self) -> int:
        """Return as many tasks as run at a time, and no more than messages in a second."""
        parallelism = parallelism_of(self._spark)
        return max(1, min(parallelism, self._options.rate or parallelism))
