"""`warren pipeline deadletters`: counts dead letters by where, why and when; sends them back.

Dead-letter queues are read as snapshots, which leave them as they are. Each message's `x-death` is
an array, newest death first; the oldest one is where the message was meant to be, its origin. Spark
counts the messages; the report is made of the counts, which are few.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.dead_letters_report import AGES, OLDEST, report_of
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import collected
from pyspark_warren.jobs.redriving import Origin, Redrive
from pyspark_warren.jobs.reports import check_writable
from pyspark_warren.jobs.watching import Watch
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DEATHS: Final = (
    "array<struct<reason string, queue string, exchange string, `routing-keys` array<string>, "
    "count bigint, time bigint>>"
)
ERROR_CHARS_MAX: Final = 200
GROUPS_MAX: Final = 10_000
KEYS: Final = ("queue", "reason", "origin", "exchange", "routing_key", "error", "hour", "age")


@dataclass(frozen=True, kw_only=True)
class DeadLettersOptions(BrokerOptions):
    """Options of the job: queues to look at, messages to choose, and what to do with them."""

    queue: Annotated[
        str, Parameter(metavar="NAMES", help="Dead-letter queues, separated by commas.")
    ]
    error_header: Annotated[
        str, Parameter(help="Header in which your consumers write what went wrong.")
    ] = "x-exception-message"
    report: Annotated[
        str | None, Parameter(metavar="FILE", help="Write an HTML report, with plots.")
    ] = None
    redrive: Annotated[
        bool,
        Parameter(
            flag="--redrive",
            help="Publish messages again to the exchange that they came by, with the routing key "
            "they had. Each is removed only when it is confirmed; the header x-redrive-count "
            "says how often. Needs an amqp:// address.",
        ),
    ] = False
    reason: Annotated[
        str | None, Parameter(help="Only messages that first died of this: rejected, expired, ...")
    ] = None
    origin: Annotated[
        str | None, Parameter(help="Only messages that first died in this queue.")
    ] = None
    error: Annotated[
        str | None, Parameter(help="Only messages whose error has this text in it.")
    ] = None
    limit: Annotated[
        int | None, Parameter(min=1, help="Look at no more messages of each queue than this.")
    ] = None

    def check(self) -> None:
        parse_source_options({**self.connection(), "queue": self.queue})
        if self.redrive:
            parse_sink_options(self.connection())
        check_writable(self.report)

    def is_wanted(self, origin: Origin, headers: dict[str, object]) -> bool:
        """True if a message is one of those that were asked for."""
        return (
            self.reason in {None, origin.reason}
            and self.origin in {None, origin.queue}
            and (self.error is None or self.error in str(headers.get(self.error_header, "")))
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that have all of this in common.

    Reason, exchange and routing key are those of the first death, hour and age of the latest.
    """

    queue: str
    reason: str | None
    origin: str | None
    exchange: str | None
    routing_key: str | None
    error: str | None
    hour: str | None
    age: str | None
    messages: int
    deaths: int


@dataclass
class DeadLetters:
    """Dead letters by group: the largest groups, and how many there are in all."""

    groups: list[Group]
    messages: int = 0
    group_count: int = 0
    redriven: int = 0

    @property
    def left_out(self) -> int:
        """Messages of groups that are too small and too many to be in `groups`."""
        return self.messages - sum(group.messages for group in self.groups)

    def by(self, *names: str) -> Counter[tuple[str, ...]]:
        """Count messages, of the groups, by what they have in common."""
        counted: Counter[tuple[str, ...]] = Counter()
        for group in self.groups:
            key = tuple(str(getattr(group, name) or "-") for name in names)
            counted[key] += group.messages
        return counted


def dead_letters(
    spark: SparkSession, options: DeadLettersOptions, watch: Watch | None = None
) -> DeadLetters:
    """Count dead letters, write the report if there is to be one, send them back if told to.

    Raises
    ------
    WarrenError
        If a queue cannot be read, or a message cannot be sent back; those before it have been.
    """
    watch = watch or Watch()
    register(spark)
    options.check()
    options.check_ports()
    found = _found(spark, options)
    watch.say(f"{found.messages:,} dead letters in {found.group_count:,} groups")
    if options.report:
        report_of(found, options.queue).write(options.report)
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


def _found(spark: SparkSession, options: DeadLettersOptions) -> DeadLetters:
    def groups() -> DataFrame:
        messages = died(_read(spark, options), options.error_header)
        return _counted(_chosen(messages, options)).limit(GROUPS_MAX)

    rows = [row.asDict() for row in collected(groups)]
    sums = [(row.pop("messages_in_all"), row.pop("groups_in_all")) for row in rows]
    messages, group_count = sums[0] if sums else (0, 0)
    return DeadLetters([Group(**row) for row in rows], messages, group_count)


def died(messages: DataFrame, error_header: str) -> DataFrame:
    """Return the messages with what their headers tell of their deaths."""
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
        .withColumn("age", _age(newest["time"]))
        .withColumn("times", times)
    )


def _age(died_at_s: Column) -> Column:
    """Return the name of the range that the time since then is in."""
    age_s = F.unix_timestamp() - died_at_s
    (first_s, first), *others = AGES
    name = F.when(age_s < first_s, first)
    for limit_s, text in others:
        name = name.when(age_s < limit_s, text)
    return F.when(died_at_s.isNotNull(), name.otherwise(OLDEST))


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
        F.col("died_key").alias("routing_key"), "error", "hour", "age",
    )  # fmt: skip
    counted = grouped.agg(
        F.count(F.lit(1)).alias("messages"), F.coalesce(F.sum("times"), F.lit(0)).alias("deaths")
    )
    everything = Window.partitionBy()
    summed = counted.withColumn("messages_in_all", F.sum("messages").over(everything))
    summed = summed.withColumn("groups_in_all", F.count(F.lit(1)).over(everything))
    return summed.orderBy(F.desc("messages"), *KEYS)


def _length(spark: SparkSession, options: DeadLettersOptions, queue: str) -> int:
    """Return how many messages there are now: what comes later, or comes back, is left alone."""
    reader = spark.read.format("warren").options(**options.connection())
    reader = reader.option("queue", queue).option("includeHeaders", "false")
    return int(collected(lambda: reader.load().agg(F.count(F.lit(1))))[0][0])
