"""/api/warren/queues/V/Q/snapshot: the ready messages of a queue as chunks, and nothing happens.

    .         all of them, or ?limit=; or those with sequence numbers of [from, to), ?from=&to=,
              whose places are counted from ?place=
    ./cuts    parts of it, by sequence numbers: ?parts=, or as many as ?part_bytes= makes

The format is that of streams (streams/chunk_format.py), with a message's place in the snapshot as
its offset, so one reader does for both. Messages that were delivered before are in chunks that say
so (`REDELIVERED`).

The queue goes on meanwhile. Places count from a head that moves, so after each look the next one
begins behind the last message seen, by its sequence number: whatever stays in the queue throughout
is there once, in its order. Where sequence numbers do not rise (with priorities), by its place.
The same holds of a snapshot in parts, which several readers take at different times: a message has
its sequence number for good, so whatever stays in the queue throughout is in exactly one part. A
queue with priorities is not divided.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Final

from starlette.responses import Response, StreamingResponse

from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.declaring import readable_queue
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.management.routes.queues import master_of_queue, queue_exists
from warren.management.routes.streams import CHUNKS_TYPE, number_of
from warren.queues.queue import Queue
from warren.streams.chunks import encode_chunk
from warren.streams.flags import REDELIVERED, with_flags
from warren.wire.codec import QueuedMessage

WINDOW_MESSAGES_MAX: Final = 4_096
WINDOW_BYTES_MAX: Final = 1_048_576
PARTS_MAX: Final = 1_000


async def _snapshot(call: Call) -> Response:
    queue = readable_queue(call, call.parts["queue"])
    now_ms = call.node.context.clock.now_ms()
    limit = number_of(call, "limit", queue.message_count)
    if "from" in call.query:
        end = number_of(call, "to", 0) if "to" in call.query else None
        walk = _Walk(queue, number_of(call, "from", 0), end)
    else:
        walk = _Walk(queue)
    place = number_of(call, "place", 0)
    return StreamingResponse(_chunks(walk, place, limit, now_ms), media_type=CHUNKS_TYPE)


async def _cuts(call: Call) -> JsonObject:
    queue = readable_queue(call, call.parts["queue"])
    count = number_of(call, "limit", queue.message_count)
    count = min(count, queue.message_count)
    part_bytes = number_of(call, "part_bytes", 0)
    parts = number_of(call, "parts", 0)
    if not parts and part_bytes:
        parts = -(-queue.backing.ready_bytes // part_bytes)
    walk = _Walk(queue)
    return {"messages": count, "parts": await walk.cuts(count, min(max(1, parts), PARTS_MAX))}


async def _chunks(walk: _Walk, place: int, limit: int, now_ms: int) -> AsyncIterator[bytes]:
    """Of no more than so many messages, which have these places."""
    end = place + limit
    while place < end:
        seen = await walk.next_window(min(end - place, WINDOW_MESSAGES_MAX))
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
    """From the head of a queue to its end, or through a part of it, a window at a time."""

    def __init__(self, queue: Queue, start: int = 0, end: int | None = None) -> None:
        self._queue = queue
        self._position = queue.message_count if start else 0
        self._last = start - 1
        self._end = end
        self._is_rising = queue.settings.max_priority is None

    async def cuts(self, count: int, parts: int) -> list[Json]:
        """Parts of as many messages each; none if they cannot be told from each other."""
        if not self._is_rising or not count:
            return []
        places = sorted({count * number // parts for number in range(parts)})
        starts = [await self._sequence_at(place) for place in places]
        last = await self._sequence_at(count - 1)
        known = [(place, start) for place, start in zip(places, starts, strict=True)]
        if last is None or any(start is None for _, start in known):
            return []  # consumers are quicker than this: what is left is little
        ends = [*starts[1:], last + 1]
        return [
            {"place": place, "from": start, "to": end}
            for (place, start), end in zip(known, ends, strict=True)
        ]

    async def next_window(self, limit: int) -> list[QueuedMessage]:
        if self._is_rising and self._last >= 0:
            await self._find_position()
        while found := await self._queue.backing.browse(self._position, limit, WINDOW_BYTES_MAX):
            self._position += len(found)
            if self._is_rising:
                found = [queued for queued in found if queued.sequence > self._last]
            if found:
                self._last = found[-1].sequence
                return self._before_end(found)
        return []

    def _before_end(self, found: list[QueuedMessage]) -> list[QueuedMessage]:
        if self._end is None:
            return found
        return [queued for queued in found if queued.sequence < self._end]

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
    Resource(
        path="/warren/queues/{vhost}/{queue}/snapshot/cuts",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_cuts,
        node_of=master_of_queue,
    ),
)
