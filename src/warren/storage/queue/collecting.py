"""A queue's messages from the newest on, some at a time, for whoever wants a copy of all of them.

Wherever they are, messages stand in the order of their numbers (message_tiers.py), so all that are
older than a given one can be had in pieces: a piece is every message from some number on to another
that the queue has at this moment. The next piece is looked for when it is wanted, in the queue as
it is by then. It may have been delivered to, paged out and read back in between; nothing of that
moves a message past another.

What a client has, and has not acknowledged, is not in the queue's lists. Whoever keeps it hands it
over; it is older than everything else but what came back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from warren.storage.index.segment import SEGMENT_SHIFT
from warren.storage.queue.message_tiers import MessageTiers, is_bodiless
from warren.storage.queue.paging_host import Reader
from warren.wire.codec import Message, QueuedMessage

PIECE_MESSAGES_MAX: Final = 4_096
READ_BYTES_MAX: Final = 4_194_304
PIECE_BYTES_MAX: Final = 8_388_608
"""Of what comes from the disk; but for the last read, or the last message."""

_sequence: Final = attrgetter("sequence")


class Piece:
    """All messages from `start` to before `below`, oldest first."""

    __slots__ = ("below", "messages", "start")

    def __init__(self, start: int, below: int, messages: list[QueuedMessage]) -> None:
        self.start = start
        self.below = below
        self.messages = messages

    def cut(self, start: int) -> None:
        """Only those from there on."""
        if start > self.start:
            del self.messages[: bisect_left(self.messages, start, key=_sequence)]
            self.start = start


def collect(
    queue: MessageTiers,
    reader: Reader,
    below: int,
    unacked: Iterable[QueuedMessage],
    done: Callable[[Piece], None],
) -> None:
    """Call `done` with the newest piece that is older than `below`.

    At once, or when it has been read; never if the queue goes in the meantime.
    """
    piece = _newest_of(queue.back, below) or _newest_of(queue.q2, below)
    if piece is None and queue.delta_count and queue.delta_start < below:
        end = min(below, queue.delta_end)
        _Read(reader, queue.index, (_start_of_segment(queue, end), end), below, done)
        return
    if piece is None:
        piece = _newest_of(queue.q3, below)
    if piece is None:
        piece = _newest_of(queue.leaving, below) or _newest_of(queue.front, below)
    if piece is None:
        returned = (queued for _, queued in queue.returned)
        oldest = [queued for queued in (*returned, *unacked) if queued.sequence < below]
        piece = Piece(0, below, sorted(oldest, key=_sequence))
    _read_bodies(reader, queue.index, piece, done)


def _start_of_segment(queue: MessageTiers, end: int) -> int:
    """Of the last segment before `end` that there is: a piece of delta is no larger."""
    last = (end - 1) >> SEGMENT_SHIFT
    number = max((n for n in queue.index.segments if n <= last), default=0)
    return max(queue.delta_start, number << SEGMENT_SHIFT)


def _newest_of(messages: Sequence[QueuedMessage], below: int) -> Piece | None:
    """None if there are none so old."""
    if not messages or messages[0].sequence >= below:
        return None
    end = bisect_left(messages, below, key=_sequence)
    start = max(0, end - PIECE_MESSAGES_MAX)
    length = len(messages)
    if start <= length - end:
        found = list(islice(messages, start, end))
    else:
        found = list(islice(reversed(messages), length - end, length - start))
        found.reverse()
    return Piece(found[0].sequence, below, found)


class _Read:
    """A part of delta: what is read is gathered until all is there, or enough.

    A read brings the oldest of a span. When that has become too much it is what was read first
    that is given up, for the next piece.
    """

    def __init__(
        self,
        reader: Reader,
        index: Any,
        span: tuple[int, int],
        below: int,
        done: Callable[[Piece], None],
    ) -> None:
        self._reader = reader
        self._index = index
        self._end = span[1]
        self._piece = Piece(span[0], below, [])
        self._bytes = 0
        self._done = done
        self._read(span[0])

    def _read(self, start: int) -> None:
        span = (start, self._end)
        self._reader.read(self._index, span, READ_BYTES_MAX, lambda e: self._have(start, e))

    def _have(self, start: int, entries: list[QueuedMessage]) -> None:
        piece = self._piece
        if self._bytes > PIECE_BYTES_MAX and entries:
            piece.start, piece.messages = start, []
            self._bytes = 0
        piece.messages += entries
        self._bytes += sum([queued.size for queued in entries if not is_bodiless(queued)])
        if entries and entries[-1].sequence + 1 < self._end:
            self._read(entries[-1].sequence + 1)
        else:
            _read_bodies(self._reader, self._index, piece, self._done)


def _read_bodies(reader: Reader, index: Any, piece: Piece, done: Callable[[Piece], None]) -> None:
    """Bodies that are in the message store: of the newest, as many as may be in memory."""
    if not any(map(is_bodiless, piece.messages)):
        done(piece)
        return
    bodiless: list[QueuedMessage] = []
    room = PIECE_BYTES_MAX
    for position in range(len(piece.messages) - 1, -1, -1):
        queued = piece.messages[position]
        if is_bodiless(queued):
            if room <= 0:
                piece.cut(piece.messages[position + 1].sequence)
                break
            room -= queued.size
            copy = QueuedMessage(queued.message, queued.sequence, queued.expires_at_ms)
            copy.size = queued.size
            copy.store_file, copy.store_offset = queued.store_file, queued.store_offset
            bodiless.append(copy)

    def have(messages: list[Message | None]) -> None:
        for copy, message in zip(bodiless, messages, strict=True):
            copy.message = message  # type: ignore[assignment]
        found = {queued.sequence: queued for queued in bodiless}
        filled = [found.get(queued.sequence, queued) for queued in piece.messages]
        # What has none now is lost, or was acknowledged while we read.
        piece.messages = [queued for queued in filled if not is_bodiless(queued)]
        done(piece)

    reader.read_bodies(index, bodiless, have)
