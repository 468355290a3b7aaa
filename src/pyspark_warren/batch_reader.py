"""The reader of batches, `spark.read.format("warren")`: any queue, as it is when it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_warren.errors import InvalidOption, NotAStream
from pyspark_warren.file_client import FileClient
from pyspark_warren.http_client import QueueClient
from pyspark_warren.planning import Span, common, limited
from pyspark_warren.positions import EARLIEST, OFFSET_MAX, PositionKind
from pyspark_warren.pushdown import FilterPushdown, Pushed
from pyspark_warren.reading import (
    PARTITION_BYTES,
    SnapshotPartition,
    StreamClient,
    WarrenReader,
    clamped,
    cut_all,
    declare_if_asked,
    matching,
    names_now,
    open_client,
    require_there,
    resolve,
)

if TYPE_CHECKING:
    from pyspark_warren.options import SourceOptions


_LIMIT_OF_SNAPSHOT: Final = (
    "option limit: {!r} is not a stream, so how much a snapshot of it has is not known before it "
    "is read; read it alone, or use limit() behind the source"
)


class WarrenBatchReader(WarrenReader, DataSourceReader):
    """Reads spans of streams, and snapshots of other queues, which it leaves as they are."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._pushed = Pushed(row_filter=options.row_filter)

    @property
    def pushFilters(self) -> FilterPushdown:  # noqa: N802 - Spark's name
        """What takes over filters, if Spark offers any (see `pushdown`)."""
        return FilterPushdown(self._take, self._pushed)

    def _take(self, pushed: Pushed) -> None:
        self._pushed = pushed
        self._row_filter = pushed.row_filter
        self._offsets = pushed.span

    def partitions(self) -> Sequence[InputPartition]:
        """
        Cut streams where chunks begin, and snapshots where messages are, into `minPartitions`.

        Returns
        -------
        sequence of :class:`InputPartition`\\s
        """
        options = self._options
        if not options.endpoints:
            assert options.path is not None, "something is read"
            with FileClient(options.path) as files:
                queues = options.queues or files.queues()
                if options.pattern is not None:
                    queues = matching(options.pattern, tuple(files.queues()))
                    self._require_named(queues)
                spans = {queue: self._span(files, queue) for queue in self._wanted(queues)}
                return cut_all(files, self._narrowed(files, spans), options)
        spans = {}
        others = []
        with open_client(options) as client:
            declare_if_asked(options, client)
            queues = names_now(options, client)
            if options.is_open:
                self._require_named(queues)
            for queue in self._wanted(queues):
                try:
                    spans[queue] = self._span(client, queue)
                except NotAStream:
                    others.append(queue)
            if options.limit is not None and others and len(spans) + len(others) > 1:
                raise InvalidOption(_LIMIT_OF_SNAPSHOT.format(others[0]))
            snapshots = [part for queue in others for part in self._snapshots(client, queue)]
            return [*snapshots, *cut_all(client, self._narrowed(client, spans), options)]

    def _require_named(self, queues: tuple[str, ...]) -> None:
        """Refuse positions by queue that leave out one of those that were found, or name others."""
        for positions in (self._options.starting, self._options.ending):
            positions.require_named(queues)

    def _wanted(self, queues: tuple[str, ...]) -> list[str]:
        wanted = self._pushed.queues
        return [queue for queue in queues if wanted is None or queue in wanted]

    def _span(self, client: StreamClient, queue: str) -> Span:
        options, extent = self._options, client.extent(queue)
        is_fatal = options.fail_on_data_loss
        first, last = options.batch_start(queue), options.batch_end(queue)
        require_there(options.starting.option, queue, first, extent, is_fatal=is_fatal)
        require_there(options.ending.option, queue, last, extent, is_fatal=is_fatal)
        start = resolve(client, queue, first, extent)
        end = resolve(client, queue, last, extent)
        if start >= end:
            return start, start
        return clamped(queue, (start, end), extent, is_fatal=is_fatal)

    def _narrowed(self, client: StreamClient, spans: dict[str, Span]) -> dict[str, Span]:
        """The spans as far as `limit` and filters that Spark has offered leave them."""
        if self._options.limit is not None:
            spans = limited(spans, self._options.limit)
        return {
            queue: common(common(span, self._pushed.span), self._in_time(client, queue, span))
            for queue, span in spans.items()
        }

    def _in_time(self, client: StreamClient, queue: str, span: Span) -> Span:
        """Offsets of the moments that are wanted; chunks have milliseconds."""
        start, end = span
        row_filter = self._row_filter
        if start < end and row_filter.since_us is not None:
            start = client.offset_at(queue, max(0, -(-row_filter.since_us // 1000)))
        if start < end and row_filter.until_us is not None:
            end = client.offset_at(queue, max(0, -(-row_filter.until_us // 1000)))
        return start, end

    def _snapshots(self, client: QueueClient, queue: str) -> list[SnapshotPartition]:
        """A snapshot in as many parts as asked for, or as its bytes make."""
        limit = self._limit(queue)
        count = self._options.partitions_min
        wanted = ("part_bytes", PARTITION_BYTES) if count is None else ("parts", count)
        parts = client.snapshot_parts(queue, limit, wanted)
        if len(parts) <= 1:
            return [SnapshotPartition(queue, limit)]
        return [SnapshotPartition(queue, None, part) for part in parts]

    def _limit(self, queue: str) -> int | None:
        """Of a queue that is no stream: it has places, of which the first is 0."""
        options = self._options
        if options.batch_start(queue) != EARLIEST:
            raise InvalidOption(
                f"option {options.starting.option}: {queue!r} is not a stream, so a snapshot of it "
                "begins at its head; leave the option out, or bind a stream to the same exchange"
            )
        ending = options.batch_end(queue)
        if ending.kind is PositionKind.MOMENT:
            raise InvalidOption(
                f"option {options.ending.option}: {queue!r} is not a stream, so its messages have "
                "places and no moments; give a number, or bind a stream to the same exchange"
            )
        limit = ending.number if ending.kind is PositionKind.OFFSET else OFFSET_MAX
        limit = min(limit, options.limit or OFFSET_MAX)
        return None if limit == OFFSET_MAX else limit
