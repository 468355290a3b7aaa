"""`df.write.format("warren")` and `df.writeStream.format("warren")`: rows to exchanges.

Each task publishes its rows with confirms, and is done when all are confirmed. There is nothing to
commit afterwards, nor anything that can be taken back: a task that fails in the middle has
published some of its rows, and will again when Spark retries it. With `idColumns` each row has an
id that is the same every time, and a queue that deduplicates takes it once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from pyspark_warren.pace import Pace, at_once
from pyspark_warren.publications import BLOCK_MESSAGES, Encoder
from pyspark_warren.publisher import Publisher

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as _StreamArrowWriter
except ImportError:  # before 4.1, which gives batches to whatever is an Arrow writer
    if not TYPE_CHECKING:

        class _StreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter): ...


if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_warren.options import SinkOptions


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """What a task has done."""

    messages: int


def publish_all(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Published:
    """Raises what the broker says against it, or PublishFailed."""
    rate = options.messages_per_second
    pace = Pace(rate) if rate else None
    encoder = Encoder(options, min(at_once(rate), BLOCK_MESSAGES) if rate else BLOCK_MESSAGES)
    with Publisher(options.endpoints, options.vhost, options.patience_s) as publisher:
        for batch in batches:
            for frames in encoder.encode(batch, publisher.frame_max):
                if pace is not None:
                    pace.wait(len(frames))
                publisher.publish(frames)
        publisher.finish()
        return Published(publisher.confirmed)


class PublishingWriter:
    """What a batch's writer and a stream's have in common: all but what Spark takes them for.

    Parameters
    ----------
    options : SinkOptions
        Where to; see :func:`pyspark_warren.options.parse_sink_options`.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """
        Publish the rows of one task and wait for their confirms.

        Parameters
        ----------
        iterator : iterator of PyArrow's `RecordBatch`

        Returns
        -------
        :class:`WriterCommitMessage`
            How many there were.
        """
        return publish_all(self._options, iterator)


class WarrenBatchWriter(PublishingWriter, DataSourceArrowWriter):
    """Publishes a DataFrame."""


class WarrenStreamWriter(PublishingWriter, _StreamArrowWriter):
    """Publishes what a streaming query results in, batch after batch."""
