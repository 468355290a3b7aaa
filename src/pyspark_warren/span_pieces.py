"""All pieces of a span, from the first record to the last, however many answers they come in.

An answer may end early, because it is long, because a segment ends there, or because the node that
gave it is gone. So it is asked on, behind the last record that came, until the span is there; and
if nothing comes any more, that is data loss and not the end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from pyspark_warren.chunk_pieces import BrokenOff
from pyspark_warren.errors import BrokerUnavailable, DataLost
from pyspark_warren.http_client import Pair, Selected
from pyspark_warren.planning import Span
from warren.streams.chunk_format import HEADER

# Where in a chunk's header the offset of its first record is, how many it has, and its length.
_FIRST, _RECORDS, _SIZE = 3, 5, 11
# Answers that break off before their first chunk is there are asked for again, after a while.
_PAUSE_S: Final = 0.5

log = logging.getLogger(__name__)

T = TypeVar("T")


class Records(Protocol):
    """Whom records can be asked of."""

    def records(self, queue: str, span: Span) -> Iterator[memoryview]: ...


class Selections(Protocol):
    """Whom a selection of records can be asked of."""

    def selected(self, queue: str, span: Span, selection: Sequence[Pair]) -> Selected: ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is put up with."""

    patience_s: float
    """How long nothing comes, because answers break off."""
    is_loss_fatal: bool


def lost(problem: str, *, is_fatal: bool) -> None:
    """Records are missing that should be read: an error, or only a warning if told so."""
    if is_fatal:
        raise DataLost(f"{problem}; to go on without them, set option failOnDataLoss to false")
    log.warning("%s", problem)


def span_pieces(source: Records, queue: str, span: Span, bounds: Bounds) -> Iterator[memoryview]:
    """Pieces that have all records of the span, and a few around it."""
    position, end = span
    deadline = time.monotonic() + bounds.patience_s
    while position < end:
        before = position
        problem = f"{queue!r} has no records from offset {position} to {end} any more"
        is_over = True
        try:
            for piece in source.records(queue, (position, end)):
                yield piece
                position = end_of(piece)
        except BrokenOff as error:
            problem, is_over = str(error), False
        except DataLost as error:
            problem, is_over = str(error), error.first_offset <= position
            lost(problem, is_fatal=bounds.is_loss_fatal)
            position = max(position, error.first_offset)
        if position > before:
            deadline = time.monotonic() + bounds.patience_s
        elif is_over:
            lost(problem, is_fatal=bounds.is_loss_fatal)
            return
        elif time.monotonic() > deadline:
            raise BrokerUnavailable(f"no answer about {queue!r} comes to its end: {problem}")
        else:
            time.sleep(_PAUSE_S)


def selected_pieces(
    source: Selections, queue: str, span: Span, selection: Sequence[Pair], bounds: Bounds
) -> Iterator[memoryview]:
    """Pieces that have all records of the span that match, and some that do not."""
    position, end = span
    while position < end:
        before = position
        problem = f"{queue!r} has no records from offset {position} to {end} any more"
        try:
            found = source.selected(queue, (position, end), selection)
        except DataLost as error:
            problem = str(error)
            lost(problem, is_fatal=bounds.is_loss_fatal)
            position = max(position, error.first_offset)
        else:
            data = memoryview(found.data)
            position = end_of(data) if found.next_offset is None else found.next_offset
            if data:
                yield data
        if position <= before:
            lost(problem, is_fatal=bounds.is_loss_fatal)
            return


def end_of(piece: memoryview) -> int:
    """The offset behind the last record of whole chunks."""
    position, end = 0, 0
    while position < len(piece):
        fields = HEADER.unpack_from(piece, position)
        end = fields[_FIRST] + fields[_RECORDS]
        position += max(HEADER.size, fields[_SIZE])
    return end


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same, but the next is made by another thread while somebody is busy with one."""
    with ThreadPoolExecutor(1, "next-piece") as thread:
        nothing = object()
        coming = thread.submit(next, items, nothing)
        while (item := coming.result()) is not nothing:
            coming = thread.submit(next, items, nothing)
            yield item  # type: ignore[misc] # it is not nothing
