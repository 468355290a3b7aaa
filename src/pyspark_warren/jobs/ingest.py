"""`warren pipeline ingest`: streams into a lake of Delta tables, each message once.

    streams ─► batches of offsets ─► decode ─► files ─┬─ good ─► messages, by queue and hour
               (Spark's checkpoint)                   ╰─ bad ──► quarantine, with the reason

The checkpoint says which offsets a batch has, so one that is run again has the same rows; the
tables (`pyspark_warren.lake.delta`) take each batch once. Together: whatever is killed, and
whenever, the lake has each record of the streams once.

A batch is read once: each task writes good and bad rows to files of their own, and the driver
commits those to the two tables. Raw bodies are nothing that Spark need see: its rows are then spans
of offsets, and each task reads and writes the records of its spans by itself (`span_source`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import pyarrow as pa

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.batch_lines import batch_of, offsets_of
from pyspark_warren.jobs.connecting import BrokerOptions
from pyspark_warren.jobs.decoding import BODY, BodyFormat, check_format, decode
from pyspark_warren.jobs.lost_workers import SPARK_ERRORS
from pyspark_warren.jobs.parallelism import parallelism_of
from pyspark_warren.jobs.parameters import Parameter
from pyspark_warren.jobs.queries import run_query
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.lake import CHECKPOINT, MESSAGES, PARTITION_COLUMNS, QUARANTINE, REASON, TABLES
from pyspark_warren.lake.batches import BatchWriter, query_id
from pyspark_warren.lake.opening import LakeFormat, SchemaEvolution, TableFormat, find_table
from pyspark_warren.lake.schemas import table_schema
from pyspark_warren.lake.storage import Storage
from pyspark_warren.lake.upkeep import FILES_MIN, Upkeep
from pyspark_warren.options import parse_source_options
from pyspark_warren.reading import PartitionReader, declare_if_asked, open_client
from pyspark_warren.source import register
from pyspark_warren.span_source import SPANS, register_spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pyspark_warren.options import SourceOptions

# As Spark writes the hour of a partition, where a query looks for it.
HOUR_FORMAT: Final = "yyyy-MM-dd-HH"
VACUUM_HOURS: Final = 168.0


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
    table_format: Annotated[
        TableFormat,
        Parameter(help="Delta tables; or plain Parquet files, which promise less and only grow."),
    ] = "delta"
    schema_evolution: Annotated[
        SchemaEvolution,
        Parameter(
            help="New columns of the bodies' schema: refuse to start, or merge them into the table."
        ),
    ] = "refuse"
    compression: Annotated[
        Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"],
        Parameter(help="Compression of the Parquet files."),
    ] = "zstd"
    compact_files: Annotated[
        int,
        Parameter(
            min=0,
            help="Put small files of a partition together when it has this many of them; 0: never.",
        ),
    ] = FILES_MIN
    z_order: Annotated[
        str | None,
        Parameter(
            metavar="COLUMNS",
            help="Bring rows with like values close to each other when files are put together.",
        ),
    ] = None
    vacuum_hours: Annotated[
        float,
        Parameter(
            min=0.01,
            help="Delete files that no version of the last so many hours needs. Longer than any "
            "batch, query or reader takes.",
        ),
    ] = VACUUM_HOURS
    checkpoint: Annotated[
        str | None,
        Parameter(
            metavar="PATH",
            show_default="in the lake",
            help="Where Spark keeps how far the streams are read. In a lake on S3, name one.",
        ),
    ] = None

    def check(self) -> None:
        parse_source_options(self.source(parallelism=1))
        check_format(self.format, self.schema)
        if self.table_format != "delta" and self.z_order is not None:
            raise InvalidOption("option z_order: plain Parquet files are never put together")
        storage = Storage.of(self.lake)
        if not storage.is_local and self.checkpoint is None:
            raise InvalidOption(
                "option checkpoint: name a path that Spark can write to: it keeps its checkpoint "
                "by itself, not by the library that writes the lake"
            )

    @property
    def place_of_checkpoint(self) -> str:
        return self.checkpoint or Storage.of(self.lake).below(CHECKPOINT).url

    def lake_format(self) -> LakeFormat:
        return LakeFormat(
            Storage.of(self.lake),
            self.table_format,
            self.schema_evolution,
            self.vacuum_hours * 3_600.0,
        )

    def upkeep(self) -> Upkeep | None:
        """Return what keeps Delta tables tidy, or None for plain files, which are left alone."""
        if self.table_format != "delta":
            return None
        columns = (self.z_order or "").split(",")
        chosen = tuple(column.strip() for column in columns if column.strip())
        return Upkeep(Storage.of(self.lake), self.compact_files, chosen, self.compression)

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
    run_query(job.start, job.watch, job.show)
    job.finish()
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
        self._lake = options.lake_format()
        self._upkeep = options.upkeep()
        self._before: _Standing | None = None
        self._source: SourceOptions | None = None
        self._rows = 0

    def start(self) -> StreamingQuery:
        options = self._options
        register(self._spark)
        given = options.source(parallelism_of(self._spark))
        self._source = source = parse_source_options(given)
        rows = self._spark.readStream.format("warren").options(**given).load()
        decoded = decode(rows, options.format, options.schema)
        _look_at(source)
        writer = BatchWriter(
            self._lake, self._schemas(decoded), options.place_of_checkpoint, options.compression,
            not options.fail_on_data_loss, self._upkeep,
            PartitionReader(source, source.row_filter) if options.format == "raw" else None,
        )  # fmt: skip
        self._check_z_order(writer.schemas[MESSAGES])
        # What cannot be written to is better known before Spark begins, and said without it.
        for name, schema in writer.schemas.items():
            self._lake.open(name, schema)
        if self._before is None:
            self._before = self._standing()
        if writer.reader is not None:
            register_spans(self._spark)
            decoded = self._spark.readStream.format(SPANS).options(**given).load()
        stream = decoded.writeStream.foreachBatch(writer)
        stream = stream.option("checkpointLocation", options.place_of_checkpoint)
        if options.once:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{options.every_s} seconds").start()

    def show(self, progress: Mapping[str, Any]) -> None:
        """Show that a batch is done, and how far behind its streams the lake is."""
        assert self._source is not None, "the query has started"
        rows = self._rows_of(progress)
        self._rows += rows
        self.watch.batch(replace(batch_of(progress, self._source), rows=rows))
        self.watch.advance(Progress(self._rows, detail=f"batch {progress['batchId']}"))

    def _rows_of(self, progress: Mapping[str, Any]) -> int:
        """Return how many records a batch has; Spark counts spans if that is what it gets."""
        if self._options.format != "raw":
            return int(progress["numInputRows"])
        rows = 0
        for read in progress["sources"]:
            starts, ends = (offsets_of(read[name]) for name in ("startOffset", "endOffset"))
            if not starts.keys() >= ends.keys():  # the first batch, or a queue's first one
                return sum(self._standing().rows.values()) - self._rows_before() - self._rows
            rows += sum(end - starts[queue] for queue, end in ends.items())
        return rows

    def _rows_before(self) -> int:
        assert self._before is not None, "the query has started"
        return sum(self._before.rows.values())

    def finish(self) -> None:
        """Do the upkeep that is due, and count what this run has brought."""
        if self._upkeep is not None:
            self._upkeep.finish(self.watch.say)
        before, now = self._before, self._standing()
        assert before is not None, "the query has started"
        self.done.batches = now.batches - before.batches
        for name in TABLES:
            self.done.rows[name] = now.rows[name] - before.rows[name]

    def _schemas(self, decoded: DataFrame) -> dict[str, pa.Schema]:
        """Return the columns of each table."""
        columns = table_schema(decoded.schema)
        apart = {REASON}
        if BODY in columns.names and not self._options.keep_value:
            apart.add("value")
        return {
            MESSAGES: pa.schema([column for column in columns if column.name not in apart]),
            QUARANTINE: pa.schema([column for column in columns if column.name != BODY]),
        }

    def _check_z_order(self, columns: pa.Schema) -> None:
        known = [name for name in columns.names if name not in PARTITION_COLUMNS]
        for name in self._upkeep.z_order if self._upkeep else ():
            if name not in known:
                raise InvalidOption(
                    f"option z_order: there is no column {name!r}; there are {', '.join(known)}"
                )

    def _standing(self) -> _Standing:
        """Return what the tables have from this checkpoint's query by now."""
        found = _Standing()
        try:
            query = query_id(self._spark, self._options.place_of_checkpoint)
        except SPARK_ERRORS:
            return found  # a new checkpoint
        for name in TABLES:
            table = find_table(self._lake.storage, name)
            if table is None:
                continue
            newest = table.newest_batch(query)
            found.batches = max(found.batches, 0 if newest is None else newest + 1)
            found.rows[name] = table.rows_of(query)
        return found


@dataclass
class _Standing:
    """How much of a query is in the lake."""

    batches: int = 0
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
