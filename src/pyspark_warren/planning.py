"""What a batch takes and how it is divided: arithmetic on offsets, which asks nobody.

Offsets of a query are a dictionary from queue to the offset that is read next, as Spark keeps it in
the checkpoint. A span is [start, end).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyspark_warren.http_client import Cut

Offsets = dict[str, int]
Span = tuple[int, int]


def admitted_by_rows(start: Mapping[str, int], end: Mapping[str, int], rows_max: int) -> Offsets:
    """Ends such that no more than so many records are read, each queue having its share.

    A queue with a backlog gets at least one, so none waits for ever: with more queues than rows
    asked for, that is how many there are.
    """
    waiting = {queue: max(0, end[queue] - start[queue]) for queue in end}
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(end)
    return {
        queue: start[queue] + (max(1, rows_max * rows // total) if rows else 0)
        for queue, rows in waiting.items()
    }


def admitted_by_bytes(cuts: Sequence[Cut], span: Span, bytes_max: int) -> int:
    """An end such that about so many bytes are read: at a cut, and at least one further on.

    What lies behind the last cut is not measured; it is a chunk, or a thousandth of the backlog.
    """
    beyond = [cut for cut in cuts if cut.offset > span[0]]
    within = [cut.offset for cut in beyond if cut.bytes - cuts[0].bytes <= bytes_max]
    if len(within) == len(beyond):
        return span[1]
    return within[-1] if within else beyond[0].offset


def shares(rows: Mapping[str, int], partitions_min: int) -> dict[str, int]:
    """How many partitions each queue is cut into, by how much there is to read of it."""
    total = sum(rows.values())
    return {queue: -(-partitions_min * count // total) for queue, count in rows.items() if count}


def divided(span: Span, cuts: Sequence[Cut], count: int) -> list[Span]:
    """The span in no more than so many, of about as many bytes each, divided at cuts alone."""
    start, end = span
    inner = [cut for cut in cuts if start < cut.offset < end]
    if count <= 1 or not inner:
        return [span] if start < end else []
    first = cuts[0].bytes
    step = (inner[-1].bytes - first) / count + 1
    places = [cut.bytes for cut in inner]
    chosen = {
        inner[min(bisect_left(places, first + step * n), len(inner) - 1)].offset
        for n in range(1, count)
    }
    bounds = [start, *sorted(chosen), end]
    return list(pairwise(bounds))


def split_by_records(spans: Sequence[Span], records_max: int) -> list[Span]:
    """The same spans, each of no more than so many records.

    Only here a span may begin within a chunk, which is then sent to both of its readers.
    """
    parts = []
    for start, end in spans:
        count = -(-(end - start) // records_max)
        bounds = [start + (end - start) * number // count for number in range(count + 1)]
        parts += list(pairwise(bounds))
    return parts


def limited(spans: Mapping[str, Span], records_max: int) -> dict[str, Span]:
    """The first so many records of all spans, in the order in which queues are named."""
    chosen = {}
    for queue, (start, end) in spans.items():
        chosen[queue] = (start, min(end, start + records_max))
        records_max -= max(0, chosen[queue][1] - start)
    return chosen


def common(span: Span, other: Span) -> Span:
    """What both have; an empty span if they have nothing in common."""
    start, end = max(span[0], other[0]), min(span[1], other[1])
    return (start, end) if start < end else (start, start)
