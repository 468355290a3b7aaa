"""What batch and stream readers share: partitions, where reading begins, and reading itself.

A partition is a span of offsets of one queue, or a snapshot of one. Offsets are dense and chunks
never change, so a span is the same rows whoever reads it, from whichever node, however often: all
that exactly-once needs of a source. What must not happen is that rows are missing in silence, so a
span is read to its last record or the task fails, unless `failOnDataLoss` is false; then what was
lost is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from pyspark_warren.chunk_batches import BatchMaker
from pyspark_warren.errors import DataLost
from pyspark_warren.http_client import CUTS_MAX, Extent, QueueClient
from pyspark_warren.planning import Span, divided
from pyspark_warren.positions import OFFSET_MAX, Position, PositionKind

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_warren.options import SourceOptions

# So many places to cut are asked for, for each partition that is wanted.
_CUTS_PER_PARTITION: Final = 16

log = logging.getLogger(__name__)


class SpanPartition(InputPartition):
    """The records [start, end) of a stream."""

    def __init__(self, queue: str, start: int, end: int) -> None:
        super().__init__(f"{queue}[{start}, {end})")
        self.queue = queue
        self.span = (start, end)


class SnapshotPartition(InputPartition):
    """The ready messages of another queue, no more than `limit` of them."""

    def __init__(self, queue: str, limit: int | None) -> None:
        super().__init__(queue)
        self.queue = queue
        self.limit = limit


def open_client(options: SourceOptions) -> QueueClient:
    return QueueClient(options.endpoints, options.vhost)


def declare_if_asked(options: SourceOptions, client: QueueClient) -> None:
    """The stream bound to `exchange`, if there is such an option."""
    if options.exchange is not None:
        client.declare_stream(options.queues[0], options.exchange, options.routing_key)


def resolve(client: QueueClient, queue: str, position: Position, extent: Extent) -> int:
    """The offset that a position stands for; it may be gone already."""
    match position.kind:
        case PositionKind.EARLIEST:
            return extent.first
        case PositionKind.LATEST:
            return extent.end
        case PositionKind.OFFSET:
            return min(position.number, extent.end)
        case PositionKind.MOMENT:
            return client.offset_at(queue, position.number)


def lost(problem: str, *, is_fatal: bool) -> None:
    """Records are missing that should be read: an error, or only a warning if told so."""
    if is_fatal:
        raise DataLost(f"{problem}; to go on without them, set option failOnDataLoss to false")
    log.warning("%s", problem)


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


def cut(client: QueueClient, queue: str, span: Span, count: int) -> list[SpanPartition]:
    """Partitions of a span, as many as asked for if there are as many chunks."""
    if span[0] >= span[1]:
        return []
    if count == 1:
        return [SpanPartition(queue, *span)]
    cuts = client.cuts(queue, span, min(CUTS_MAX, count * _CUTS_PER_PARTITION))
    return [SpanPartition(queue, *part) for part in divided(span, cuts, count)]


@dataclass(frozen=True)
class PartitionReader:
    """Reads partitions, in whichever process Spark runs it."""

    options: SourceOptions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Where there are no partitions, Spark makes an empty one."""
        if not isinstance(partition, SpanPartition | SnapshotPartition):
            assert partition.value is None, "there are no others"
            return
        maker = BatchMaker(partition.queue, self.options.include_headers)
        with open_client(self.options) as client:
            if isinstance(partition, SpanPartition):
                yield from self._span(client, maker, partition.span)
            else:
                for piece in client.snapshot(partition.queue, partition.limit):
                    batch = maker.batch(piece, (0, OFFSET_MAX))
                    assert batch is not None, "a piece is a chunk at least"
                    yield batch

    def _span(self, client: QueueClient, maker: BatchMaker, span: Span) -> Iterator[pa.RecordBatch]:
        position, end = span
        is_fatal = self.options.fail_on_data_loss
        while position < end:
            try:
                data = client.records(maker.queue, (position, end))
            except DataLost as error:
                lost(str(error), is_fatal=is_fatal)
                position = max(position + 1, error.first_offset)
                continue
            batch = maker.batch(data, (position, end))
            if batch is None:
                lost(
                    f"{maker.queue!r} has no records from offset {position} to {end} any more",
                    is_fatal=is_fatal,
                )
                return
            position += batch.num_rows
            yield batch
