"""The data source `warren`: what Spark is told of, and makes readers and writers with."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from pyspark_warren.batch_reader import WarrenBatchReader
from pyspark_warren.errors import InvalidOption, WarrenError
from pyspark_warren.option_words import refuse_without_effect
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.refused_reader import RefusedStreamReader
from pyspark_warren.schema import asked_columns, spark_schema
from pyspark_warren.sink_columns import check_columns
from pyspark_warren.stream_reader import WarrenStreamReader
from pyspark_warren.writer import WarrenBatchWriter, WarrenStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from pyspark_warren.options import SourceOptions

__all__ = ["WarrenDataSource", "register"]


class WarrenDataSource(DataSource):
    """
    Queues of a Warren broker as DataFrames.

    Options of the source
    ---------------------
    url
        Addresses, several for failover: ``http://a:15672,http://b:15672``.
    failoverTimeout
        For how many seconds addresses are tried before the task fails (``120``).
    user, password, vhost
        ``guest``, ``guest`` and ``/`` if neither here nor in `url`.
    queue, subscribe
        One or several, separated by commas.
    subscribePattern
        Read the streams whose whole names match, those that appear later, too.
    superStream
        Read the partitions of this super stream, those that are added later, too.
    exchange, routingKey
        Declare a stream, named by `queue` or after the exchange, and bind it with this key (``#``).
    startingOffsets, endingOffsets
        ``earliest``, ``latest``, an offset, or a moment such as ``2026-08-01T12:00:00Z``; or one
        for each queue: ``{"orders": 23, "clicks": "earliest"}``. The end is for batches alone.
    startingTimestamp, endingTimestamp
        A moment, or milliseconds since 1970.
    startingOffsetsByTimestamp, endingOffsetsByTimestamp
        A moment for each queue: ``{"orders": 1785585600000}``.
    startingOffsetsByTimestampStrategy
        What if no record came at such a moment or later: ``error``, or begin at the ``latest``.
    maxOffsetsPerTrigger, maxBytesPerTrigger
        How much a batch of a stream has at most; bytes to the nearest chunk.
    minOffsetsPerTrigger, maxTriggerDelay
        How many records a batch of a stream waits for, and how long (``15m``).
    minPartitions
        Into how many a read is cut, if there are as many chunks.
    maxRecordsPerPartition
        How many records a partition has at most.
    limit
        How many records a batch has at most.
    columns
        The columns that are read, separated by commas; the same as ``schema()``.
    filterRoutingKey
        Patterns as bindings of a topic exchange have them, separated by commas: ``eu.#,us.*``.
    filterHeaders
        Headers that a message must have: ``{"type": "order"}``; with ``"x-match": "any"`` one.
    failOnDataLoss
        Whether it is an error that records were removed before they were read (``true``).
    includeHeaders
        Whether there are the columns `headers` and `properties` (``true``).
    group
        Under which name the broker is told how far a query has come.
    path
        A directory of a stream's segments, or one with several below it: read these files, instead
        of having a broker send them. Without `url`, for `spark.read` alone: a copy of a stream.
    caFile
        Who signed the certificates of ``https://`` and ``amqps://`` addresses, if not one whom the
        machine trusts anyway.
    certFile, keyFile
        The certificate to show to such addresses, and its key if that is in a file of its own. For
        the sink it is the login, too, if there is neither a user nor a token.
    token, tokenFile
        An OAuth 2.0 access token in place of a password, or a file with one, which is read again
        for each connection.

    Options of the sink
    -------------------
    url
        Addresses, several for failover: ``amqp://a,amqp://b``.
    user, password, vhost, caFile, certFile, keyFile, token, tokenFile, failoverTimeout
        As above.
    exchange, routingKey
        For rows without a column of that name (`exchange`, `routing_key`).
    superStream
        In place of `exchange`: publish all rows to this super stream, whatever their column says.
    partitionKey
        A column, text or a number, that is every row's routing key.
    idColumns
        Columns that tell one message from all others: the deduplication id, so that a row which is
        published again, by a task that was retried, is taken once.
    messagesPerSecond
        How many messages each task publishes per second at most.

    Examples
    --------
    >>> register(spark)  # doctest: +SKIP
    >>> orders = (
    ...     spark.read.format("warren")
    ...     .option("url", "http://localhost:15672")
    ...     .option("queue", "orders")
    ...     .load()
    ... )  # doctest: +SKIP
    """

    _stream_reader_type: ClassVar[type[WarrenStreamReader]] = WarrenStreamReader

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "warren"

    def schema(self) -> StructType:
        return spark_schema(columns=parse_source_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        refuse_without_effect(self.options, is_stream=False)
        return WarrenBatchReader(self._source_options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        try:
            return self._stream_reader(schema)
        except WarrenError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise InvalidOption('mode("overwrite"): queues are added to; use mode("append")')
        options = parse_sink_options(self.options)
        check_columns(schema, options)
        return WarrenBatchWriter(options)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        if overwrite:
            raise InvalidOption('outputMode("complete"): queues are added to; use "append"')
        options = parse_sink_options(self.options)
        check_columns(schema, options)
        return WarrenStreamWriter(options)

    def _stream_reader(self, schema: StructType) -> WarrenStreamReader:
        refuse_without_effect(self.options, is_stream=True)
        options = self._source_options(schema)
        if not options.endpoints:
            raise InvalidOption(
                "option url: is missing; files do not say how far records are safe, so readStream "
                "asks a broker, and reads what is below option path"
            )
        return self._stream_reader_type(options)

    def _source_options(self, schema: StructType) -> SourceOptions:
        """The options, with the columns that `schema()` of the query names."""
        options = parse_source_options(self.options)
        columns, property_names = asked_columns(schema)
        if "columns" in self.options and columns != options.columns:
            raise InvalidOption("option columns: names others than schema(); give one of them")
        return replace(options, columns=columns, property_names=property_names)


def register(spark: SparkSession) -> None:
    """
    Make ``format("warren")`` known to a session.

    Spark finds the source by itself where this package is installed for the Python that runs its
    workers; this is for everywhere else.

    Parameters
    ----------
    spark : :class:`SparkSession`
    """
    try:
        spark.dataSource.register(WarrenDataSource)
    except AnalysisException as error:
        # Before 4.1 Spark refuses a source that it has found by itself.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
