"""The reader of streams, `spark.readStream.format("warren")`: batch after batch, each record once.

Who knows what. Spark's checkpoint says which offsets a batch has, before it is run, and which
batches are done. So a batch that is run again has the same offsets, and these are the same rows
(see `reading`). The broker's group cursor is told where the query is, for people, and for
retention to wait; nothing is read by it.

Spark tells a source of finished batches late: `commit(end)` of a batch comes when the next but one
is planned, never for the last, and not when the query stops. But `latestOffset(start)` is asked
with the end of the last batch that is done. So the cursor is set from both, and the greater counts,
which the broker sees to.

Queues of a pattern, and partitions of a super stream, are looked for before each batch. One that
appears is read from its first record; one that disappears is data loss, since nobody knows whether
all of it was read.

All methods but `read` run in one process beside the driver. `partitions` depends on nothing that
changes: chunks begin where they begin.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_warren.admission import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    require_limits,
)
from pyspark_warren.errors import QueueMissing
from pyspark_warren.http_client import CUTS_MAX, Extent
from pyspark_warren.planning import (
    Offsets,
    Span,
    admitted_by_bytes,
    admitted_by_rows,
)
from pyspark_warren.progress import METRICS, metrics_of
from pyspark_warren.reading import (
    WarrenReader,
    clamped,
    cut_all,
    declare_if_asked,
    names_now,
    open_client,
    require_there,
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
        for name, limit in (
            ("maxOffsetsPerTrigger", options.offsets_per_trigger_max),
            ("maxBytesPerTrigger", options.bytes_per_trigger_max),
            ("minOffsetsPerTrigger", options.offsets_per_trigger_min),
        ):
            if limit is not None:
                require_limits(name)
        self._client = open_client(options)
        self._cursors: Offsets = {}
        self._known: tuple[str, ...] = ()
        self._targets: Offsets | None = None
        self._extents: dict[str, Extent] | None = None
        self._admitted: Offsets = {}
        self._admitted_s = float("-inf")
        """When a batch was admitted last, by the monotonic clock."""

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """
        Return where a new query begins: `startingOffsets`, by default the end.

        Returns
        -------
        dict
            From queue to offset.
        """
        declare_if_asked(self._options, self._client)
        option = self._options.starting.option
        initial = {}
        extents = self._extents_now()
        self._options.starting.require_named(tuple(extents))
        for queue, extent in extents.items():
            starting = self._options.stream_start(queue)
            require_there(option, queue, starting, extent, is_fatal=self._is_fatal)
            offset = resolve(self._client, queue, starting, extent)
            span = (offset, max(offset, extent.end))
            initial[queue] = clamped(queue, span, extent, is_fatal=self._is_fatal)[0]
        return initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """
        Return the limit that the options ask for.

        Spark knows no limit that is two, so with several options the others are applied besides.
        """
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min is not None:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Offsets | None = None, limit: ReadLimit | None = None
    ) -> Offsets:
        """
        Return where the next batch ends.

        Parameters
        ----------
        start : dict
            Where it begins, which is the end of the last batch that is done. Before 4.2 Spark does
            not say.
        limit : :class:`ReadLimit`
            How much it may have.

        Returns
        -------
        dict
            From queue to offset; `start` again if there is nothing to read.
        """
        start = start or {}
        self._set_cursors(start)
        ends = self._ends(start)
        if not isinstance(limit, ReadAllAvailable | None):
            known = {queue: self._begin(queue, start) for queue in ends}
            is_late = self._must_wait(known, ends)
            ends = start if is_late else self._admitted_by(limit, known, ends)
        if ends == start:
            ends = start  # in the order of Spark's text, which is compared
        else:
            self._admitted_s = time.monotonic()
        self._admitted = ends
        return ends

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the streams end: the query is to come as far as that."""
        # Spark asks this before it asks where a new query begins.
        declare_if_asked(self._options, self._client)
        self._targets = {queue: extent.end for queue, extent in self._extents_now().items()}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return where the streams ended when they were last looked at, for the query's status.

        Beside the offsets there is how far behind them the batch is that was just admitted, which
        :func:`pyspark_warren.progress` reads: Spark has no other place for it.
        """
        if self._extents is None:
            return None
        latest = {queue: extent.end for queue, extent in self._extents.items()}
        ends = {queue: self._admitted.get(queue, 0) for queue in latest}
        unread = {
            queue: self._client.unread(queue, end)
            for queue, end in ends.items()
            if end < latest[queue]
        }
        return {**latest, METRICS: metrics_of(latest, ends, unread)}

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
        return cut_all(self._client, spans, self._options)

    def commit(self, end: Offsets) -> None:
        """Tell the broker how far the group has come."""
        self._set_cursors(end)

    def stop(self) -> None:
        self._client.close()

    # How far

    @property
    def _is_fatal(self) -> bool:
        return self._options.fail_on_data_loss

    def _names(self) -> tuple[str, ...]:
        """The queues that are read now."""
        self._known = names_now(self._options, self._client)
        return self._known

    def _extents_now(self) -> dict[str, Extent]:
        """Return the extents of all queues; one that was found may have been deleted just now."""
        names = self._names() if self._targets is None else tuple(self._targets)
        extents = {}
        for queue in names:
            try:
                extents[queue] = self._client.extent(queue)
            except QueueMissing:
                if not self._options.is_open:
                    raise
        return extents

    def _ends(self, start: Offsets) -> Offsets:
        """Where the streams end, or where AvailableNow is to come to."""
        self._extents = self._extents_now()
        if self._options.is_open:
            for queue in start:
                if queue not in self._extents:
                    lost(f"{queue!r} was read, and is not there any more", is_fatal=self._is_fatal)
        ends = {queue: self._end(queue, start.get(queue, 0)) for queue in self._extents}
        # An empty queue that is new would make a batch without rows.
        return {queue: end for queue, end in ends.items() if queue in start or end or not start}

    def _begin(self, queue: str, start: Offsets) -> int:
        """A queue that was added to the query is read from its beginning.

        One that came to match a pattern, or to a super stream, begins at 0: what it has lost by now
        is missing.
        """
        if queue in start:
            return start[queue]
        return 0 if self._options.is_open else self._client.extent(queue).first

    def _end(self, queue: str, start: int) -> int:
        assert self._extents is not None, "the streams were just looked at"
        end = self._extents[queue].end
        if end < start:
            problem = f"{queue!r} ends at offset {end}, but was read up to {start}: it is another"
            lost(problem, is_fatal=self._is_fatal)
            return end
        target = end if self._targets is None else self._targets[queue]
        return max(start, min(end, target))

    def _must_wait(self, start: Offsets, end: Offsets) -> bool:
        """True while there is less than `minOffsetsPerTrigger`, and not for too long."""
        least = self._options.offsets_per_trigger_min
        if least is None or self._targets is not None:
            return False
        waited_s = time.monotonic() - self._admitted_s
        there = sum(max(0, end[queue] - start[queue]) for queue in end)
        return there < least and waited_s < self._options.trigger_delay_s

    def _admitted_by(self, limit: ReadLimit, start: Offsets, end: Offsets) -> Offsets:
        if isinstance(limit, ReadMaxRows):
            end = admitted_by_rows(start, end, limit.max_rows)
        bytes_max = self._options.bytes_per_trigger_max
        if isinstance(limit, ReadMaxBytes):
            bytes_max = limit.max_bytes
        return end if bytes_max is None else self._admitted_by_bytes(start, end, bytes_max)

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
            if self._is_read(queue) and self._cursors.get(queue, -1) < offset:
                self._client.set_cursor(queue, group, offset)
                self._cursors[queue] = offset

    def _is_read(self, queue: str) -> bool:
        """False for a queue that an earlier run of the query read."""
        return queue in (self._known or self._names())
