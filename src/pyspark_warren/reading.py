"""Reading, as batch and stream readers share it: partitions, where to begin, and what they read.

A partition is a span of offsets of one queue, or a snapshot of one. Offsets are dense and chunks
never change, so a span is the same rows whoever reads it, from whichever node, however often: all
that exactly-once needs of a source. What must not happen is that rows are missing in silence, so a
span is read to its last record or the task fails, unless `failOnDataLoss` is false; then what was
lost is logged.

Where a query wants all there is, chunks come as they are in the broker's files, which costs it
least. Where it wants less (no bodies, one routing key), the broker is told so, and sends less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from re import fullmatch
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql.datasource import InputPartition

from pyspark_warren.chunk_batches import BatchMaker
from pyspark_warren.errors import InvalidOption
from pyspark_warren.file_client import FileClient
from pyspark_warren.http_client import CUTS_MAX, Cut, Extent, Pair, QueueClient, SnapshotPart
from pyspark_warren.planning import Span, divided, shares, split_by_records
from pyspark_warren.positions import OFFSET_MAX, Position, PositionKind
from pyspark_warren.row_filter import RowFilter
from pyspark_warren.span_pieces import Bounds, lost, one_ahead, selected_pieces, span_pieces

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_warren.options import SourceOptions

# So many places to cut are asked for, for each partition that is wanted.
_CUTS_PER_PARTITION: Final = 16
# About so much a partition has if nobody says how many there are to be.
PARTITION_BYTES: Final = 64 * 1_048_576
_OF_ROUTES: Final = frozenset({"exchange", "routing_key"})
_OF_PROPERTIES: Final = frozenset({"headers", "properties"})


class StreamClient(Protocol):
    """Whom a batch is planned with: a broker, or files."""

    def extent(self, queue: str) -> Extent: ...

    def offset_at(self, queue: str, moment_ms: int) -> int: ...

    def cuts(self, queue: str, span: Span, limit: int) -> list[Cut]: ...


class SpanPartition(InputPartition):
    """The records [start, end) of a stream."""

    def __init__(self, queue: str, start: int, end: int) -> None:
        super().__init__(f"{queue}[{start}, {end})")
        self.queue = queue
        self.span = (start, end)


class SnapshotPartition(InputPartition):
    """The ready messages of another queue: a part of them, or no more than `limit`."""

    def __init__(self, queue: str, limit: int | None, part: SnapshotPart | None = None) -> None:
        super().__init__(queue)
        self.queue = queue
        self.limit = limit
        self.part = part


def open_client(options: SourceOptions) -> QueueClient:
    return QueueClient(options.endpoints, options.vhost, options.patience_s)


def declare_if_asked(options: SourceOptions, client: QueueClient) -> None:
    """The stream bound to `exchange`, if there is such an option."""
    if options.exchange is not None:
        client.declare_stream(options.queues[0], options.exchange, options.routing_key)


def matching(pattern: str, names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The names that match as a whole, as Kafka's `subscribePattern` does."""
    return tuple(name for name in names if fullmatch(pattern, name))


def names_now(options: SourceOptions, client: QueueClient) -> tuple[str, ...]:
    """The queues to be read; of a pattern or of a super stream, as many as there are now."""
    if options.super_stream is not None:
        return tuple(client.partition_names(options.super_stream))
    if options.pattern is not None:
        return matching(options.pattern, client.stream_names())
    return options.queues


def resolve(client: StreamClient, queue: str, position: Position, extent: Extent) -> int:
    """The offset that a position stands for; it may be gone already."""
    match position.kind:
        case PositionKind.EARLIEST:
            return extent.first
        case PositionKind.LATEST:
            return extent.end
        case PositionKind.OFFSET:
            return min(position.number, extent.end)
        case PositionKind.MOMENT:
            return _resolve_moment(client, queue, position, extent)


def _resolve_moment(client: StreamClient, queue: str, position: Position, extent: Extent) -> int:
    offset = client.offset_at(queue, position.number)
    if position.must_exist and offset >= extent.end:
        raise InvalidOption(
            f"option {position.option}: {queue!r} has no record of that moment or later "
            f"({position.number} ms since 1970); to begin with the next record, set option "
            "startingOffsetsByTimestampStrategy to latest"
        )
    return offset


def require_there(
    option: str, queue: str, position: Position, extent: Extent, *, is_fatal: bool
) -> None:
    """An offset that is not there yet would be read as nothing, which nobody means."""
    if position.kind is PositionKind.OFFSET and position.number > extent.end:
        lost(
            f"option {option}: {queue!r} ends at offset {extent.end}, so there is no offset "
            f"{position.number} yet",
            is_fatal=is_fatal,
        )


def clamped(queue: str, span: Span, extent: Extent, *, is_fatal: bool) -> Span:
    """As much of the span as the stream has."""
    start, end = span
    if start < extent.first:
        gone = f"{queue!r} begins at offset {extent.first}: those from {start} on were removed"
        lost(f"{gone} before they were read", is_fatal=is_fatal)
    if end > extent.end:
        lost(
            f"{queue!r} ends at offset {extent.end}, before {end}: was it deleted and declared "
            "again?",
            is_fatal=is_fatal,
        )
    return max(start, extent.first), min(end, extent.end)


def cut_all(
    client: StreamClient, spans: Mapping[str, Span], options: SourceOptions
) -> list[SpanPartition]:
    """Partitions of all spans, as many as asked for if there are as many chunks.

    Without a number, each has so many that none is too much for a task.
    """
    rows = {queue: end - start for queue, (start, end) in spans.items() if start < end}
    counts: Mapping[str, int | None] = dict.fromkeys(rows)
    if options.partitions_min is not None:
        counts = shares(rows, options.partitions_min)
    partitions = []
    for queue, count in counts.items():
        parts = _cut(client, queue, spans[queue], count)
        if options.partition_records_max is not None:
            parts = split_by_records(parts, options.partition_records_max)
        partitions += [SpanPartition(queue, *part) for part in parts]
    return partitions


def _cut(client: StreamClient, queue: str, span: Span, count: int | None) -> list[Span]:
    if count == 1:
        return [span]
    limit = CUTS_MAX if count is None else min(CUTS_MAX, count * _CUTS_PER_PARTITION)
    cuts = client.cuts(queue, span, limit)
    if count is None:
        count = -(-(cuts[-1].bytes - cuts[0].bytes) // PARTITION_BYTES) if cuts else 1
    return divided(span, cuts, count)


@dataclass(frozen=True)
class PartitionReader:
    """Reads partitions, in whichever process Spark runs it."""

    options: SourceOptions
    row_filter: RowFilter
    offsets: Span = (0, OFFSET_MAX)
    """Rows of a snapshot with other offsets are left out."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Where there are no partitions, Spark makes an empty one."""
        if isinstance(partition, SpanPartition):
            return self._span(partition.queue, partition.span)
        if isinstance(partition, SnapshotPartition):
            return self._snapshot(partition)
        assert partition.value is None, "there are no others"
        return iter(())

    @property
    def _bounds(self) -> Bounds:
        return Bounds(self.options.patience_s, self.options.fail_on_data_loss)

    def _maker(self, queue: str) -> BatchMaker:
        options = self.options
        return BatchMaker(queue, options.columns, options.property_names, self.row_filter)

    def _selection(self) -> list[Pair]:
        """What the broker is told to leave out; empty if everything is wanted."""
        columns, row_filter = set(self.options.columns), self.row_filter
        without = [] if "value" in columns else ["bodies"]
        if not columns & _OF_ROUTES and not row_filter.keys:
            without.append("routes")
        if not columns & _OF_PROPERTIES and row_filter.headers is None:
            without.append("properties")
        query = row_filter.query()
        # To leave out properties alone spares little and costs the broker its shortest way.
        if without == ["properties"] and not query:
            return []
        return [*([("without", ",".join(without))] if without else []), *query]

    def _span(self, queue: str, span: Span) -> Iterator[pa.RecordBatch]:
        maker = self._maker(queue)
        path = self.options.path
        if path is not None:
            with FileClient(path) as files:
                for piece in span_pieces(files, queue, span, self._bounds):
                    yield from maker.batches(piece, span)
            return
        selection = self._selection()
        with open_client(self.options) as client:
            if selection:
                pieces = selected_pieces(client, queue, span, selection, self._bounds)
            else:
                pieces = span_pieces(client, queue, span, self._bounds)
            # While one piece is decoded and goes to Spark, the next is on its way.
            for piece in one_ahead(pieces):
                yield from maker.batches(piece, span)

    def _snapshot(self, partition: SnapshotPartition) -> Iterator[pa.RecordBatch]:
        maker = self._maker(partition.queue)
        with open_client(self.options) as client:
            pieces = client.snapshot(partition.queue, partition.limit, partition.part)
            for piece in one_ahead(pieces):
                yield from maker.batches(piece, self.offsets)


class WarrenReader:
    """What a batch's reader and a stream's have in common.

    Parameters
    ----------
    options : SourceOptions
        What to read; see :func:`pyspark_warren.options.parse_source_options`.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._row_filter = options.row_filter
        self._offsets: Span = (0, OFFSET_MAX)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """
        Fetch and decode one partition.

        Parameters
        ----------
        partition : :class:`InputPartition`
            One of those that :meth:`partitions` returned.

        Returns
        -------
        iterator of PyArrow's `RecordBatch`
        """
        return PartitionReader(self._options, self._row_filter, self._offsets).read(partition)
