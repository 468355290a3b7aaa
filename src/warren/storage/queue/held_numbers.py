"""Which sequence numbers a queue has messages of, in memory and on disk, as runs.

Two copies of a queue are compared by these: nearly all of a backlog's numbers follow each other, so
a million messages are a few runs, and are not looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeAlias

from warren.storage.index.segment import pieces_among, runs_of
from warren.storage.queue.message_tiers import MessageTiers, runs_of_sequences
from warren.wire.codec import QueuedMessage

Runs: TypeAlias = list[tuple[int, int]]
"""First number and count, in order, with gaps between them."""

_sequence = attrgetter("sequence")


def held_runs(queue: MessageTiers, unacked: Iterable[int] = ()) -> Runs:
    """Of all ready messages, and these, that clients have."""
    returned = sorted([*(sequence for sequence, _ in queue.returned), *unacked])
    runs = runs_of_sequences(returned)
    for messages in (queue.front, queue.leaving, queue.q3, queue.q2, queue.back):
        runs += _runs_of(list(messages))
    if queue.delta_count:
        queue.index.close_run()
        for segment, places in pieces_among(
            queue.index.segments, queue.delta_start, queue.delta_end
        ):
            runs += [(segment.base + at, n) for at, n in runs_of(segment.readable & places)]
    return _joined(sorted(runs))


def common_runs(left: Runs, right: Runs) -> Runs:
    found: Runs = []
    at = 0
    for first, count in left:
        end = first + count
        while at < len(right) and sum(right[at]) <= first:
            at += 1
        place = at
        while place < len(right) and right[place][0] < end:
            start, stop = max(first, right[place][0]), min(end, sum(right[place]))
            found.append((start, stop - start))
            place += 1
    return found


def count_between(runs: Runs, start: int, end: int) -> int:
    return sum(max(0, min(end, first + count) - max(start, first)) for first, count in runs)


def _runs_of(messages: Sequence[QueuedMessage]) -> Runs:
    return list(_halves(messages, 0, len(messages)))


def _halves(messages: Sequence[QueuedMessage], start: int, end: int) -> Iterator[tuple[int, int]]:
    if start == end:
        return
    first, last = _sequence(messages[start]), _sequence(messages[end - 1])
    if last - first == end - 1 - start:
        yield first, end - start
        return
    middle = (start + end) // 2
    yield from _halves(messages, start, middle)
    yield from _halves(messages, middle, end)


def _joined(runs: Runs) -> Runs:
    joined: Runs = []
    for first, count in runs:
        if joined and sum(joined[-1]) >= first:
            start = joined[-1][0]
            joined[-1] = (start, max(sum(joined[-1]), first + count) - start)
        else:
            joined.append((first, count))
    return joined
