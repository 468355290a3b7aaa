"""Looking at the messages of a queue without touching them.

What is in memory is shown as it is. Of what is on disk so much is read as is asked for: which
sequence numbers are alive is known without reading, so the thousandth message of a delta costs no
more than the first. Nothing that is read here becomes part of the queue, and where the queue's own
reader has got to is not changed by more than a place in a file.

A queue goes on while it is looked at. Messages that were taken in the meantime may be shown; those
whose body is gone for good by then are not. Bodies are asked for in the very turn in which their
messages are known to be alive: from then on their files stay.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from itertools import chain, islice

from warren.storage.bodies.message_store import MessageStore
from warren.storage.index.index import IndexStore
from warren.storage.index.index_records import EMBEDDED
from warren.storage.index.queue_index import QueueIndex
from warren.storage.index.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT, pieces_of, runs_of
from warren.storage.index.states import TRANSIENT_FILE_MIN
from warren.storage.queue.message_tiers import MessageTiers, is_bodiless
from warren.storage.queue.paging_host import Reader
from warren.wire.codec import Message, QueuedMessage


async def browse(
    queue: MessageTiers, reader: Reader, offset: int, limit: int, bytes_max: int
) -> list[QueuedMessage]:
    """As `BackingQueue.browse`."""
    before, after, skip, count = _parts(queue, offset, limit)
    span = (queue.delta_start, queue.delta_end)
    before = within_bytes(before, bytes_max)
    bytes_max -= sum(queued.size for queued in before)
    found = [_copy(queued) for queued in before]
    later = [_copy(queued) for queued in within_bytes(after, bytes_max)]
    await reader.fill(queue.index, [q for q in (*found, *later) if is_bodiless(q)])
    if count and bytes_max > 0:
        paged = await reader.browse(queue.index, span, (skip, count), bytes_max)
        found += paged
        bytes_max -= sum(queued.size for queued in paged)
        count -= len(paged)
    if count <= 0:
        found += within_bytes(later, bytes_max)
    return [queued for queued in found if not is_bodiless(queued)]


def _parts(
    queue: MessageTiers, offset: int, limit: int
) -> tuple[list[QueuedMessage], list[QueuedMessage], int, int]:
    """Messages in memory before and after delta; how many of delta to skip, how many to read."""
    end = offset + limit
    older = len(queue.returned) + len(queue.front) + len(queue.leaving) + len(queue.q3)
    newer = older + queue.delta_count
    before = after = list[QueuedMessage]()
    if offset < older:
        returned = (queued for _, queued in nsmallest(end, queue.returned))
        ready = chain(returned, queue.front, queue.leaving, queue.q3)
        before = list(islice(ready, offset, end))
    if end > newer:
        after = list(islice(chain(queue.q2, queue.back), max(0, offset - newer), end - newer))
    skip = max(0, offset - older)
    count = max(0, min(end, newer) - older - skip)
    return before, after, skip, count


def within_bytes(entries: list[QueuedMessage], bytes_max: int) -> list[QueuedMessage]:
    """The first of them that have so many bytes together, and the one that is too many."""
    for position, queued in enumerate(entries):
        if bytes_max <= 0:
            return entries[:position]
        bytes_max -= queued.size
    return entries


def _copy(queued: QueuedMessage) -> QueuedMessage:
    copy = QueuedMessage(queued.message, queued.sequence, queued.expires_at_ms)
    copy.redelivered = queued.redelivered
    copy.size = queued.size
    copy.store_file, copy.store_offset = queued.store_file, queued.store_offset
    return copy


class Browser:
    """Reads for `browse` in the storage of a virtual host."""

    def __init__(self, index: IndexStore, bodies: MessageStore, transient: MessageStore) -> None:
        self._index = index
        self._stores = ((bodies, False), (transient, True))

    async def read(
        self, queue: QueueIndex, span: tuple[int, int], window: tuple[int, int], bytes_max: int
    ) -> list[QueuedMessage]:
        """As `Reader.browse`."""
        skip, count = window
        queue.close_run()
        first = nth_alive(queue, span, skip)
        if first is None:
            return []
        last = nth_alive(queue, (first, span[1]), count - 1)
        end = span[1] if last is None else last + 1
        entries = await self._index.read_alive(queue, (first, end), bytes_max)
        bodiless = [queued for queued in entries if is_bodiless(queued)]
        await self.fill(queue, bodiless, lambda queued: is_alive(queue, queued.sequence))
        return [queued for queued in entries if not is_bodiless(queued)]

    async def fill(
        self,
        queue: QueueIndex,
        entries: list[QueuedMessage],
        is_wanted: Callable[[QueuedMessage], bool],
    ) -> None:
        embedded = [queued for queued in entries if queued.store_file == EMBEDDED]
        entries = [queued for queued in entries if queued.store_file != EMBEDDED]
        for store, is_transient in self._stores:
            mine = [
                queued
                for queued in entries
                if (queued.store_file >= TRANSIENT_FILE_MIN) is is_transient and is_wanted(queued)
            ]
            places = [(queued.store_file, queued.store_offset, queued.size) for queued in mine]
            for queued, found in zip(mine, await store.read_many(places), strict=True):
                if isinstance(found, Message):
                    queued.message = found
        messages = await self._index.read_messages(queue, embedded) if embedded else None
        for queued in embedded:
            if messages is not None:
                queued.message = messages.get(queued.sequence, queued.message)


def nth_alive(queue: QueueIndex, span: tuple[int, int], number: int) -> int | None:
    """The sequence number of one that is in a segment and alive, counting from 0."""
    first, last = span[0] >> SEGMENT_SHIFT, (span[1] - 1) >> SEGMENT_SHIFT
    for segment_number in sorted(n for n in queue.segments if first <= n <= last):
        segment = queue.segments[segment_number]
        start = max(span[0], segment.base)
        end = min(span[1], segment.base + SEGMENT_ENTRIES)
        _, places = next(pieces_of(start, end))
        alive = segment.readable & places
        count = alive.bit_count()
        if number < count:
            return segment.base + _nth_place(alive, number)
        number -= count
    return None


def _nth_place(places: int, number: int) -> int:
    for first, length in runs_of(places):
        if number < length:
            return first + number
        number -= length
    raise AssertionError("there are so many")


def is_alive(queue: QueueIndex, sequence: int) -> bool:
    segment = queue.segments.get(sequence >> SEGMENT_SHIFT)
    return segment is not None and bool(segment.readable >> (sequence - segment.base) & 1)
