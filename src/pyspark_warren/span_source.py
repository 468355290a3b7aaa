"""The data source `warren-spans`: a stream of spans of offsets, for a job that reads them itself.

The source `warren` reads records in a Python worker and hands them to Spark, which makes rows of
its own of them. A job that only writes them down again has Spark make Arrow of these rows, for
another Python worker: two thirds of what such a job cost. With this source a batch's rows are not
the records, but where they are: `queue`, `start` and `end`, one row for each partition. The task
that gets such a row reads the records of the span (`records_of`) and writes them, in one process.

All else is as with `warren`, since it is the same reader: options, offsets in the checkpoint,
limits of a batch, the group's cursor, progress. A span is the same records however often it is
read, so a batch that is run again has the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_warren.errors import InvalidOption
from pyspark_warren.options import parse_source_options
from pyspark_warren.reading import PartitionReader, SpanPartition
from pyspark_warren.source import WarrenDataSource
from pyspark_warren.stream_reader import WarrenStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, InputPartition

    from pyspark_warren.options import SourceOptions

SPANS: Final = "warren-spans"
_COLUMNS: Final = (("queue", StringType()), ("start", LongType()), ("end", LongType()))
_SCHEMA: Final = pa.schema([("queue", pa.string()), ("start", pa.int64()), ("end", pa.int64())])


class SpanStreamReader(WarrenStreamReader):
    """Reads where a batch's records are, not the records."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """
        Return one row: the span of this partition.

        Parameters
        ----------
        partition : :class:`InputPartition`
            One of those that :meth:`partitions` returned, or Spark's own where there are none.

        Returns
        -------
        iterator of PyArrow's `RecordBatch`
        """
        if isinstance(partition, SpanPartition):
            columns = [[partition.queue], [partition.span[0]], [partition.span[1]]]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


class SpanDataSource(WarrenDataSource):
    """Spans of streams; takes the options of `warren`."""

    _stream_reader_type: ClassVar[type[WarrenStreamReader]] = SpanStreamReader

    @classmethod
    def name(cls) -> str:
        return SPANS

    def schema(self) -> StructType:
        return StructType([StructField(name, kind) for name, kind in _COLUMNS])

    def reader(self, schema: StructType) -> DataSourceReader:
        raise InvalidOption(f"format {SPANS}: is for readStream")

    def _source_options(self, schema: StructType) -> SourceOptions:
        """Return the options; which columns the job writes is its own affair."""
        return parse_source_options(self.options)


def register_spans(spark: SparkSession) -> None:
    """Make ``format("warren-spans")`` known to a session."""
    spark.dataSource.register(SpanDataSource)


def records_of(
    spans: Iterator[pa.RecordBatch], reader: PartitionReader
) -> Iterator[pa.RecordBatch]:
    """Read the records of a task's spans."""
    for batch in spans:
        for queue, start, end in zip(*(column.to_pylist() for column in batch), strict=True):
            yield from reader.read(SpanPartition(queue, start, end))
