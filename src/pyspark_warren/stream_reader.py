"""`spark.readStream.format("warren")`: streams, batch after batch, each record once.

Who knows what. Spark's checkpoint says which offsets a batch has, before it is run, and which
batches are done. So a batch that is run again has the same offsets, and these are the same rows
(see `reading`). The broker's group cursor is told where the query is, for people, and for
retention to wait; nothing is read by it.

Spark tells a source of finished batches late: `commit(end)` of a batch comes when the next but one
is planned, never for the last, and not when the query stops. But `latestOffset(start)` is asked
with the end of the last batch that is done. So the cursor is set from both, and the greater counts,
which the broker sees to.

All methods but `read` run in one process beside the driver. `partitions` depends on nothing that
changes: chunks begin where they begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_warren.http_client import CUTS_MAX
from pyspark_warren.planning import (
    Offsets,
    Span,
    admitted_by_bytes,
    admitted_by_rows,
)
from pyspark_warren.reading import (
    WarrenReader,
    clamped,
    cut_all,
    declare_if_asked,
    open_client,
    resolve,
)
from pyspark_warren.span_pieces import lost

if TYPE_CHECKING:
    from pyspark_warren.options import SourceOptions


class WarrenStreamReader(WarrenReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams as they grow.

    Offsets are a dictionary from queue to the offset that is read next: ``{"orders": 17}``.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._client = open_client(options)
        self._cursors: Offsets = {}
        self._targets: Offsets | None = None
        self._latest: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """
        Return where a new query begins: `startingOffsets`, by default the end.

        Returns
        -------
        dict
            From queue to offset.
        """
        declare_if_asked(self._options, self._client)
        starting = self._options.stream_starting
        initial = {}
        for queue in self._options.queues:
            extent = self._client.extent(queue)
            offset = resolve(self._client, queue, starting, extent)
            span = (offset, max(offset, extent.end))
            initial[queue] = clamped(queue, span, extent, is_fatal=self._is_fatal)[0]
        return initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """
        Return the limit that the options ask for.

        Spark knows no limit that is two, so with both options the one of bytes is applied besides.
        """
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self._options.bytes_per_trigger_max)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """
        Return where the next batch ends.

        Parameters
        ----------
        start : dict
            Where it begins, which is the end of the last batch that is done.
        limit : :class:`ReadLimit`
            How much it may have.

        Returns
        -------
        dict
            From queue to offset; `start` again if there is nothing to read.
        """
        self._set_cursors(start)
        self._latest = {queue: self._client.extent(queue).end for queue in self._options.queues}
        known = {queue: self._begin(queue, start) for queue in self._options.queues}
        ends = {queue: self._end(queue, known[queue]) for queue in self._options.queues}
        if isinstance(limit, ReadAllAvailable):
            return ends
        if isinstance(limit, ReadMaxRows):
            ends = admitted_by_rows(known, ends, limit.max_rows)
        bytes_max = self._options.bytes_per_trigger_max
        if isinstance(limit, ReadMaxBytes):
            bytes_max = limit.max_bytes
        return ends if bytes_max is None else self._admitted_by_bytes(known, ends, bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the streams end: the query is to come as far as that."""
        self._targets = {queue: self._client.extent(queue).end for queue in self._options.queues}

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802 - Spark's name
        """Return where the streams ended when they were last looked at, for the query's status."""
        return self._latest

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """
        Cut a batch where chunks begin, into `minPartitions` altogether.

        Parameters
        ----------
        start, end : dict
            From queue to offset.

        Returns
        -------
        sequence of :class:`InputPartition`\\s
        """
        spans = {queue: self._span(queue, start, end[queue]) for queue in end}
        return cut_all(self._client, spans, self._options.partitions_min)

    def commit(self, end: Offsets) -> None:
        """Tell the broker how far the group has come."""
        self._set_cursors(end)

    def stop(self) -> None:
        self._client.close()

    # How far

    @property
    def _is_fatal(self) -> bool:
        return self._options.fail_on_data_loss

    def _begin(self, queue: str, start: Offsets) -> int:
        """A queue that was added to the query is read from its beginning."""
        return start[queue] if queue in start else self._client.extent(queue).first

    def _end(self, queue: str, start: int) -> int:
        assert self._latest is not None, "the streams were just looked at"
        end = self._latest[queue]
        if end < start:
            problem = f"{queue!r} ends at offset {end}, but was read up to {start}: it is another"
            lost(problem, is_fatal=self._is_fatal)
            return end
        target = end if self._targets is None else self._targets.get(queue, end)
        return max(start, min(end, target))

    def _admitted_by_bytes(self, start: Offsets, end: Offsets, bytes_max: int) -> Offsets:
        waiting = [queue for queue in end if end[queue] > start[queue]]
        admitted = dict(end)
        for queue in waiting:
            extent = self._client.extent(queue)
            span = clamped(queue, (start[queue], end[queue]), extent, is_fatal=self._is_fatal)
            cuts = self._client.cuts(queue, span, CUTS_MAX)
            admitted[queue] = admitted_by_bytes(cuts, span, bytes_max // len(waiting))
        return admitted

    def _span(self, queue: str, start: Offsets, end: int) -> Span:
        begin = self._begin(queue, start)
        if begin == end:
            return begin, end
        # An end before the beginning is that of a stream declared again: all of it is new.
        begin = begin if begin < end else 0
        extent = self._client.extent(queue)
        return clamped(queue, (begin, end), extent, is_fatal=self._is_fatal)

    def _set_cursors(self, offsets: Offsets) -> None:
        group = self._options.group
        if group is None:
            return
        for queue, offset in offsets.items():
            if queue in self._options.queues and self._cursors.get(queue, -1) < offset:
                self._client.set_cursor(queue, group, offset)
                self._cursors[queue] = offset
