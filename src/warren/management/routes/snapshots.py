"""/api/warren/queues/V/Q/snapshot: the ready messages of a queue as chunks, and nothing happens.

The format is that of streams (streams/chunk_format.py), with a message's place in the snapshot as
its offset, so one reader does for both. Messages that were delivered before are in chunks that say
so (`REDELIVERED`).

The queue goes on meanwhile. Places count from a head that moves, so after each look the next one
begins behind the last message seen, by its sequence number: whatever stays in the queue throughout
is there once, in its order. Where sequence numbers do not rise (with priorities), by its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Final

from starlette.responses import Response, StreamingResponse

from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.declaring import readable_queue
from warren.management.resource import Resource
from warren.management.routes.queues import master_of_queue, queue_exists
from warren.management.routes.streams import CHUNKS_TYPE, number_of
from warren.queues.queue import Queue
from warren.streams.chunks import encode_chunk
from warren.streams.flags import REDELIVERED, with_flags
from warren.wire.codec import QueuedMessage

WINDOW_MESSAGES_MAX: Final = 4_096
WINDOW_BYTES_MAX: Final = 1_048_576


async def _snapshot(call: Call) -> Response:
    queue = readable_queue(call, call.parts["queue"])
    limit = number_of(call, "limit", queue.message_count)
    now_ms = call.node.context.clock.now_ms()
    return StreamingResponse(_chunks(queue, limit, now_ms), media_type=CHUNKS_TYPE)


async def _chunks(queue: Queue, limit: int, now_ms: int) -> AsyncIterator[bytes]:
    """Of no more than so many messages."""
    walk = _Walk(queue)
    place = 0
    while place < limit:
        seen = await walk.next_window(min(limit - place, WINDOW_MESSAGES_MAX))
        if not seen:
            return
        for was_delivered, messages in _runs(seen):
            pieces = encode_chunk([queued.message for queued in messages], place, now_ms)
            yield with_flags(b"".join(pieces), REDELIVERED if was_delivered else 0)
            place += len(messages)


def _runs(seen: list[QueuedMessage]) -> Iterator[tuple[bool, list[QueuedMessage]]]:
    for was_delivered, run in groupby(seen, lambda queued: queued.redelivered):
        yield was_delivered, list(run)


class _Walk:
    """From the head of a queue to its end, a window at a time."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._position = 0
        self._last = -1
        self._is_rising = queue.settings.max_priority is None

    async def next_window(self, limit: int) -> list[QueuedMessage]:
        if self._is_rising and self._last >= 0:
            await self._find_position()
        while found := await self._queue.backing.browse(self._position, limit, WINDOW_BYTES_MAX):
            self._position += len(found)
            if self._is_rising:
                found = [queued for queued in found if queued.sequence > self._last]
            if found:
                self._last = found[-1].sequence
                return found
        return []

    async def _find_position(self) -> None:
        """Of the first message behind the last one seen, which may have moved to the front."""
        if self._position and await self._sequence_at(self._position - 1) == self._last:
            return
        low, high = 0, self._position
        while low < high:
            middle = (low + high) // 2
            sequence = await self._sequence_at(middle)
            if sequence is not None and sequence <= self._last:
                low = middle + 1
            else:
                high = middle
        self._position = low

    async def _sequence_at(self, position: int) -> int | None:
        seen = await self._queue.backing.browse(position, 1, 1)
        return seen[0].sequence if seen else None


RESOURCES: Final = (
    Resource(
        path="/warren/queues/{vhost}/{queue}/snapshot",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_snapshot,
        node_of=master_of_queue,
    ),
)
