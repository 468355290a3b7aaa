"""`spark.read.format("warren")`: any queue, as it is when the query is planned."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_warren.errors import InvalidOption, NotAStream
from pyspark_warren.file_client import FileClient
from pyspark_warren.planning import Span
from pyspark_warren.positions import EARLIEST, PositionKind
from pyspark_warren.reading import (
    SnapshotPartition,
    StreamClient,
    WarrenReader,
    clamped,
    cut_all,
    declare_if_asked,
    open_client,
    resolve,
)


class WarrenBatchReader(WarrenReader, DataSourceReader):
    """Reads spans of streams, and snapshots of other queues, which it leaves as they are."""

    def partitions(self) -> Sequence[InputPartition]:
        """
        Cut streams where chunks begin, into `minPartitions` altogether; a snapshot is one.

        Returns
        -------
        sequence of :class:`InputPartition`\\s
        """
        options = self._options
        if not options.endpoints:
            assert options.path is not None, "something is read"
            with FileClient(options.path) as files:
                queues = options.queues or files.queues()
                spans = {queue: self._span(files, queue) for queue in queues}
                return cut_all(files, spans, options.partitions_min)
        spans = {}
        snapshots: list[InputPartition] = []
        with open_client(options) as client:
            declare_if_asked(options, client)
            for queue in options.queues:
                try:
                    spans[queue] = self._span(client, queue)
                except NotAStream:
                    snapshots.append(SnapshotPartition(queue, self._limit(queue)))
            return [*snapshots, *cut_all(client, spans, options.partitions_min)]

    def _span(self, client: StreamClient, queue: str) -> Span:
        extent = client.extent(queue)
        start = resolve(client, queue, self._options.batch_starting, extent)
        end = resolve(client, queue, self._options.ending, extent)
        if start >= end:
            return start, start
        return clamped(queue, (start, end), extent, is_fatal=self._options.fail_on_data_loss)

    def _limit(self, queue: str) -> int | None:
        """Of a queue that is no stream: it has places, of which the first is 0."""
        if self._options.batch_starting != EARLIEST:
            raise InvalidOption(
                f"option startingOffsets: {queue!r} is not a stream, so a snapshot of it begins at "
                "its head; leave the option out, or bind a stream to the same exchange"
            )
        ending = self._options.ending
        if ending.kind is PositionKind.MOMENT:
            raise InvalidOption(
                f"option endingOffsets: {queue!r} is not a stream, so its messages have places "
                "and no moments; give a number, or bind a stream to the same exchange"
            )
        return ending.number if ending.kind is PositionKind.OFFSET else None
