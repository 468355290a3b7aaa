"""`warren pipeline deadletters`: what died, where, of what and when; and back with it, if wanted.

Dead-letter queues are read as snapshots, which leave them as they are. Each message's `x-death` is
an array, newest death first; the oldest one is where the message was meant to be, its origin. The
messages are counted by Spark; what is counted is few, and the report is made of that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.plots import bars_across, stacked_bars
from pyspark_warren.jobs.queries import patiently
from pyspark_warren.jobs.redriving import Origin, Redrive
from pyspark_warren.jobs.reports import Report, check_writable
from pyspark_warren.jobs.watching import Watch
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEATHS: Final = (
    "array<struct<reason string, queue string, exchange string, `routing-keys` array<string>, "
    "count bigint, time bigint>>"
)
ERROR_CHARS_MAX: Final = 200
GROUPS_MAX: Final = 10_000
GROUPS_SHOWN: Final = 200
KEYS: Final = ("queue", "reason", "origin", "exchange", "routing_key", "error", "hour")


@dataclass(frozen=True, kw_only=True)
class DeadLettersOptions(BrokerOptions):
    """Which queues to look at, and what to do with what is there."""

    queue: Annotated[
        str, Parameter(metavar="NAMES", help="Dead-letter queues, separated by commas.")
    ]
    error_header: Annotated[
        str, Parameter(help="Header in which your consumers say what went wrong.")
    ] = "x-exception-message"
    report: Annotated[
        str | None, Parameter(metavar="FILE", help="Write an HTML report, with plots.")
    ] = None
    redrive: Annotated[
        bool,
        Parameter(
            flag="--redrive",
            help="Send messages back to where they first died, with the routing key they had. "
            "Each leaves the queue only when it is confirmed there; header x-redrive-count "
            "counts. Needs an amqp:// address.",
        ),
    ] = False
    reason: Annotated[
        str | None, Parameter(help="Only those that died of it: rejected, expired, ...")
    ] = None
    origin: Annotated[str | None, Parameter(help="Only those that first died in this queue.")] = (
        None
    )
    error: Annotated[str | None, Parameter(help="Only those whose error has this text in it.")] = (
        None
    )
    limit: Annotated[
        int | None, Parameter(min=1, help="Look at so many messages of each queue at most.")
    ] = None

    def check(self) -> None:
        parse_source_options({**self.connection(), "queue": self.queue})
        if self.redrive:
            parse_sink_options(self.connection())
        check_writable(self.report)

    def is_wanted(self, origin: Origin, headers: dict[str, object]) -> bool:
        """Whether a message is one of those that were asked for."""
        return (
            self.reason in {None, origin.reason}
            and self.origin in {None, origin.queue}
            and (self.error is None or self.error in str(headers.get(self.error_header, "")))
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that have all of this in common. Reason and places are those of the origin."""

    queue: str
    reason: str | None
    origin: str | None
    exchange: str | None
    routing_key: str | None
    error: str | None
    hour: str | None
    messages: int
    deaths: int


@dataclass
class DeadLetters:
    groups: list[Group]
    redriven: int = 0

    @property
    def messages(self) -> int:
        return sum(group.messages for group in self.groups)

    def by(self, *names: str) -> Counter[tuple[str, ...]]:
        """How many messages have what in common."""
        counted: Counter[tuple[str, ...]] = Counter()
        for group in self.groups:
            key = tuple(str(getattr(group, name) or "-") for name in names)
            counted[key] += group.messages
        return counted


def dead_letters(
    spark: SparkSession, options: DeadLettersOptions, watch: Watch | None = None
) -> DeadLetters:
    """Counts them, writes the report if there is to be one, and sends them back if told to.

    Raises
    ------
    WarrenError
        If a queue cannot be read, or a message cannot be sent back; those before it have been.
    """
    watch = watch or Watch()
    register(spark)
    options.check()
    found = DeadLetters(patiently(lambda: _groups(spark, options)))
    watch.say(f"{found.messages} dead letters in {len(found.groups)} groups")
    if options.report:
        report_of(found, options).write(options.report)
        watch.say(f"the report is {options.report}")
    if options.redrive:
        sink = parse_sink_options(options.connection())
        for queue, count in found.by("queue").items():
            limit = options.limit or _length(spark, options, queue[0])
            watch.say(f"{queue[0]}: sending {count} back")
            watch.begin()
            redrive = Redrive(sink.endpoints, sink.vhost, watch)
            redrive.run(queue[0], limit, options.is_wanted)
            found.redriven += redrive.redriven
    return found


def _groups(spark: SparkSession, options: DeadLettersOptions) -> list[Group]:
    rows = _counted(_chosen(died(_read(spark, options), options.error_header), options))
    return [Group(**row.asDict()) for row in rows.limit(GROUPS_MAX).collect()]


def died(messages: DataFrame, error_header: str) -> DataFrame:
    """Messages with what their headers tell of their deaths."""
    deaths = F.from_json(F.col("headers")["x-death"], DEATHS)
    oldest = F.element_at(F.col("deaths"), -1)
    newest = F.get(F.col("deaths"), 0)
    times = F.aggregate(F.col("deaths.count"), F.lit(0).cast("bigint"), lambda a, b: a + b)
    return (
        messages.withColumn("deaths", F.when(F.size(deaths) > 0, deaths))
        .withColumn("reason", oldest["reason"])
        .withColumn("origin", oldest["queue"])
        .withColumn("died_exchange", oldest["exchange"])
        .withColumn("died_key", F.get(oldest["routing-keys"], 0))
        .withColumn("error", F.left(F.col("headers")[error_header], F.lit(ERROR_CHARS_MAX)))
        .withColumn("hour", F.date_format(F.timestamp_seconds(newest["time"]), "yyyy-MM-dd HH:00"))
        .withColumn("times", times)
    )


def _read(spark: SparkSession, options: DeadLettersOptions) -> DataFrame:
    reader = spark.read.format("warren").options(**options.connection())
    if options.limit is not None:
        reader = reader.option("endingOffsets", str(options.limit))
    return reader.option("queue", options.queue).load()


def _chosen(rows: DataFrame, options: DeadLettersOptions) -> DataFrame:
    if options.reason is not None:
        rows = rows.filter(F.col("reason") == options.reason)
    if options.origin is not None:
        rows = rows.filter(F.col("origin") == options.origin)
    if options.error is not None:
        rows = rows.filter(F.col("error").contains(options.error))
    return rows


def _counted(rows: DataFrame) -> DataFrame:
    grouped = rows.groupBy(
        "queue", "reason", "origin", F.col("died_exchange").alias("exchange"),
        F.col("died_key").alias("routing_key"), "error", "hour",
    )  # fmt: skip
    counted = grouped.agg(
        F.count(F.lit(1)).alias("messages"), F.coalesce(F.sum("times"), F.lit(0)).alias("deaths")
    )
    return counted.orderBy(F.desc("messages"), *KEYS)


def _length(spark: SparkSession, options: DeadLettersOptions, queue: str) -> int:
    """How many there are now: what comes later, and what comes back, is not looked at."""
    reader = spark.read.format("warren").options(**options.connection())
    reader = reader.option("queue", queue).option("includeHeaders", "false")
    return patiently(lambda: reader.load().count())


def report_of(found: DeadLetters, options: DeadLettersOptions) -> Report:
    report = Report(f"Dead letters in {options.queue}")
    report.text(f"{found.messages:,} messages, in {len(found.groups):,} groups.")
    hours = sorted({group.hour or "-" for group in found.groups})
    reasons = sorted({group.reason or "-" for group in found.groups})
    counted = found.by("reason", "hour")
    series = {reason: [float(counted[reason, hour]) for hour in hours] for reason in reasons}
    title = "Messages by the hour (UTC) of their latest death and the reason of their first"
    report.plot(title, stacked_bars(hours, series))
    for title, name in (
        ("Messages by the queue they first died in", "origin"), ("By reason", "reason"),
        ("By routing key", "routing_key"), ("By error", "error"),
    ):  # fmt: skip
        report.plot(title, bars_across({key[0]: float(n) for key, n in found.by(name).items()}))
    report.heading("Groups")
    names = ("queue", "reason", "origin", "exchange", "routing_key", "error")
    rows = [[*key, count] for key, count in found.by(*names).most_common(GROUPS_SHOWN)]
    report.table([*(name.replace("_", " ") for name in names), "messages"], rows)
    return report
