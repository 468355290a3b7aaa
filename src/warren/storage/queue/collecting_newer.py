"""Messages of a queue from a number on, oldest first, that somebody else is to have copies of.

The counterpart of `collecting`, which goes from a number back: for a copy that has the older ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final

from warren.storage.queue.collecting import Piece
from warren.storage.queue.message_tiers import MessageTiers, is_bodiless
from warren.storage.queue.paging_host import Reader
from warren.wire.codec import Message, QueuedMessage

PIECE_MESSAGES_MAX: Final = 1_024
PIECE_BYTES_MAX: Final = 262_144
"""Of bodies, but for the last one."""

_sequence: Final = attrgetter("sequence")


def collect_newer(
    queue: MessageTiers,
    reader: Reader,
    start: int,
    unacked: Iterable[QueuedMessage],
    done: Callable[[Piece], None],
) -> None:
    """Call `done` with the oldest piece from `start` on; one that ends the queue ends with it.

    At once, or when it has been read; never if the queue goes in the meantime.
    """
    delta = queue.delta_count and queue.delta_end > start
    found = _before_delta(queue, start, unacked)
    if not delta:
        found = chain(found, _from(queue.q2, start), _from(queue.back, start))
    messages, is_cut = _take(found)
    if delta and not messages:
        _read(queue, reader, (max(start, queue.delta_start), queue.delta_end), start, done)
        return
    if is_cut:
        end = messages[-1].sequence + 1
    else:
        end = max(start, queue.delta_start) if delta else queue.next_sequence
    _fill(reader, queue.index, Piece(start, end, messages), done)


def _before_delta(
    queue: MessageTiers, start: int, unacked: Iterable[QueuedMessage]
) -> Iterable[QueuedMessage]:
    returned = [queued for _, queued in queue.returned]
    oldest = [queued for queued in (*returned, *unacked) if queued.sequence >= start]
    newer = [_from(part, start) for part in (queue.front, queue.leaving, queue.q3)]
    return chain(sorted(oldest, key=_sequence), *newer)


def _from(messages: Sequence[QueuedMessage], start: int) -> Iterable[QueuedMessage]:
    if not messages or messages[-1].sequence < start:
        return ()
    return islice(messages, bisect_left(messages, start, key=_sequence), None)


def _take(found: Iterable[QueuedMessage]) -> tuple[list[QueuedMessage], bool]:
    """As many as a piece may have, and whether there are more."""
    messages: list[QueuedMessage] = []
    size = 0
    for queued in found:
        if len(messages) == PIECE_MESSAGES_MAX or size >= PIECE_BYTES_MAX:
            return messages, True
        messages.append(queued)
        size += queued.size
    return messages, False


def _read(
    queue: MessageTiers,
    reader: Reader,
    span: tuple[int, int],
    start: int,
    done: Callable[[Piece], None],
) -> None:
    index = queue.index

    def have(entries: list[QueuedMessage]) -> None:
        messages, _ = _take(entries)
        end = messages[-1].sequence + 1 if messages else span[1]
        _fill(reader, index, Piece(start, end, messages), done)

    reader.read(index, span, PIECE_BYTES_MAX, have)


def _fill(reader: Reader, index: Any, piece: Piece, done: Callable[[Piece], None]) -> None:
    """With bodies that are in the message store; what has none then is lost, or gone by now."""
    bodiless = [_copy(queued) for queued in piece.messages if is_bodiless(queued)]
    if not bodiless:
        done(piece)
        return
    found = {queued.sequence: queued for queued in bodiless}

    def have(read: list[Message | None]) -> None:
        for copy, message in zip(bodiless, read, strict=True):
            copy.message = message  # type: ignore[assignment]
        filled = [found.get(queued.sequence, queued) for queued in piece.messages]
        piece.messages = [queued for queued in filled if not is_bodiless(queued)]
        done(piece)

    reader.read_bodies(index, bodiless, have)


def _copy(queued: QueuedMessage) -> QueuedMessage:
    copy = QueuedMessage(queued.message, queued.sequence, queued.expires_at_ms)
    copy.size = queued.size
    copy.store_file, copy.store_offset = queued.store_file, queued.store_offset
    return copy
