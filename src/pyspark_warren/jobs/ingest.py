"""`warren pipeline ingest`: streams into a lake of Parquet, each message once.

    streams ─► batches of offsets ─► decode ─┬─ good ─► messages/queue=Q/hour=H/
               (Spark's checkpoint)          ╰─ bad ──► quarantine/queue=Q/hour=H/, with the reason

The checkpoint says which offsets a batch has, so one that is run again has the same rows; the lake
(`lake.py`) takes each batch once. Together: whatever is killed, and whenever, the lake has each
record of the streams once.

A batch's good rows are written in one pass over the source, which counts the bad ones on its way.
Only if there are any is the batch read again, for those: they are rare, and reading is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.compaction import FILES_MIN, compact
from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.decoding import BODY, REASON, BodyFormat, check_format, decode
from pyspark_warren.jobs.lake import MESSAGES, QUARANTINE, Commit, Lake, batch_name
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import run_query
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.options import parse_source_options
from pyspark_warren.reading import declare_if_asked, open_client
from pyspark_warren.source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pyspark_warren.options import SourceOptions

HOUR_FORMAT: Final = "yyyy-MM-dd-HH"
PARTITION_COLUMNS: Final = ("queue", "hour")
# Rows of a task go to so many partitions side by side before they have to be sorted.
WRITERS_MAX: Final = 64
COMPACTED_EVERY: Final = 50


@dataclass(frozen=True, kw_only=True)
class IngestOptions(BrokerOptions):
    """What to take in, from where, and how it is kept."""

    lake: Annotated[str, Parameter(metavar="PATH", help="Where the tables are, or will be.")]
    queue: Annotated[
        str | None, Parameter(metavar="NAMES", help="Streams, separated by commas.")
    ] = None
    exchange: Annotated[
        str | None,
        Parameter(help="Have a stream declared (named by --queue, if given) and bound to it."),
    ] = None
    routing_key: Annotated[str | None, Parameter(help="To bind it with.", show_default="#")] = None
    format: Annotated[BodyFormat, Parameter(help="What bodies are.")] = "raw"
    schema: Annotated[
        str | None,
        Parameter(
            help="Of the bodies, or a file with it: for json as in SQL ('id BIGINT NOT NULL, "
            "name STRING'), for avro an Avro schema."
        ),
    ] = None
    keep_value: Annotated[
        bool, Parameter(help="Keep bodies as they came, beside the decoded ones.")
    ] = True
    starting_offsets: Annotated[
        str,
        Parameter(help="Where a new lake begins: earliest, latest, an offset or a moment."),
    ] = "earliest"
    once: Annotated[
        bool, Parameter(flag="--once", help="Take what is there and end, instead of going on.")
    ] = False
    every_s: Annotated[
        float, Parameter(min=0, help="Seconds from one batch to the next; 0: at once.")
    ] = 10.0
    offsets_max: Annotated[
        int | None, Parameter(min=1, help="So many records in a batch at most.")
    ] = None
    bytes_max: Annotated[
        int, Parameter(min=1, help="So many bytes in a batch, to about a chunk.")
    ] = 1_073_741_824
    partitions: Annotated[
        int | None,
        Parameter(min=1, help="So many tasks read a batch.", show_default="cores"),
    ] = None
    group: Annotated[
        str | None, Parameter(help="Under which name the broker is told how far this is.")
    ] = None
    fail_on_data_loss: Annotated[
        bool, Parameter(help="Whether records that are gone before they are read end the job.")
    ] = True
    compression: Annotated[
        Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"],
        Parameter(help="Of the Parquet files."),
    ] = "zstd"
    compact_files: Annotated[
        int,
        Parameter(
            min=0, help="Put small files of a partition together when there are so many; 0: never."
        ),
    ] = FILES_MIN
    checkpoint: Annotated[str | None, Parameter(metavar="PATH", show_default="in the lake")] = None

    def check(self) -> None:
        parse_source_options(self.source(parallelism=1))
        check_format(self.format, self.schema)

    def source(self, parallelism: int) -> dict[str, str]:
        """As options of the source."""
        given: dict[str, object | None] = {
            **self.connection(),
            "queue": self.queue,
            "exchange": self.exchange,
            "routingKey": self.routing_key,
            "startingOffsets": self.starting_offsets,
            "maxOffsetsPerTrigger": self.offsets_max,
            "maxBytesPerTrigger": self.bytes_max,
            "minPartitions": self.partitions or parallelism,
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            "group": self.group,
        }
        return {name: str(value) for name, value in given.items() if value is not None}


@dataclass
class Ingested:
    """What one run has put into the lake."""

    batches: int = 0
    rows: dict[str, int] = field(default_factory=lambda: {MESSAGES: 0, QUARANTINE: 0})

    @property
    def messages(self) -> int:
        return self.rows[MESSAGES]

    @property
    def quarantined(self) -> int:
        return self.rows[QUARANTINE]


def ingest(spark: SparkSession, options: IngestOptions, watch: Watch | None = None) -> Ingested:
    """Until there is no more (`once`), or until `watch` is told to stop.

    Raises
    ------
    WarrenError
        If the job cannot begin, or cannot go on. What was taken in by then stays, and the next run
        goes on from there.
    """
    job = _Ingest(spark, options, watch or Watch())
    run_query(job.start, job.watch)
    job.compact()
    return job.done


def _look_at(source: SourceOptions) -> None:
    """Whether everything is there is better known before Spark begins, and said without it."""
    with open_client(source) as client:
        declare_if_asked(source, client)
        for queue in source.queues:
            client.extent(queue)


class _Ingest:
    def __init__(self, spark: SparkSession, options: IngestOptions, watch: Watch) -> None:
        self._spark = spark
        self._options = options
        self.watch = watch
        self.done = Ingested()
        self._lake = Lake(spark, options.lake)

    def start(self) -> StreamingQuery:
        options = self._options
        register(self._spark)
        self._lake.recover()
        self._spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(WRITERS_MAX))
        given = options.source(self._spark.sparkContext.defaultParallelism)
        source = parse_source_options(given)
        rows = self._spark.readStream.format("warren").options(**given).load()
        shaped = self._shaped(decode(rows, options.format, options.schema))
        _look_at(source)
        writer = shaped.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", options.checkpoint or self._lake.checkpoint)
        if options.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{options.every_s} seconds").start()

    def compact(self) -> None:
        if self._options.compact_files:
            compact(self._spark, self._lake, self._options.compact_files, self.watch)

    def _shaped(self, decoded: DataFrame) -> DataFrame:
        hour = F.date_format(F.col("timestamp"), HOUR_FORMAT)
        return decoded.withColumn("hour", hour)

    def _take(self, rows: DataFrame, batch: int) -> None:
        """One batch into the lake. Called by Spark, one at a time."""
        query = self._query_id()
        if self._lake.has_batch(query, batch):
            self.watch.say(f"batch {batch} is in the lake already")
            return
        name = batch_name(batch)
        staging = self._lake.stage(name)
        counts = self._write(rows, staging)
        self._lake.commit(Commit(name, query, staging, counts))
        self.done.batches += 1
        for table, count in counts.items():
            self.done.rows[table] += count
        self._show(batch)
        if batch % COMPACTED_EVERY == COMPACTED_EVERY - 1:
            self.compact()

    def _query_id(self) -> str:
        """The checkpoint's own id: the same as long as the checkpoint is."""
        identity = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert identity, "Spark says in which query a batch is"
        return identity

    def _write(self, rows: DataFrame, staging: str) -> dict[str, int]:
        seen = Observation()
        is_bad = F.col(REASON).isNotNull()
        counted = rows.observe(
            seen, F.count(F.lit(1)).alias("rows"), F.count_if(is_bad).alias("bad")
        )
        good = counted.filter(~is_bad).drop(REASON)
        if BODY in good.columns and not self._options.keep_value:
            good = good.drop("value")
        self._write_table(good, staging, MESSAGES)
        bad = int(seen.get["bad"])
        if bad:
            self._write_table(rows.filter(is_bad).drop(BODY), staging, QUARANTINE)
        return {MESSAGES: int(seen.get["rows"]) - bad, QUARANTINE: bad}

    def _write_table(self, rows: DataFrame, staging: str, table: str) -> None:
        writer = rows.write.option("compression", self._options.compression)
        writer.partitionBy(*PARTITION_COLUMNS).parquet(self._lake.files.whole(f"{staging}/{table}"))

    def _show(self, batch: int) -> None:
        done = self.done
        detail = f"batch {batch}"
        if done.quarantined:
            detail += f", {done.quarantined} in quarantine"
        self.watch.advance(Progress(done.messages + done.quarantined, detail=detail))
