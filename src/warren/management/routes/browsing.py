"""/api/warren/queues/V/Q/browse: the messages of a queue, which goes on as if nobody looked.

Nothing is delivered, marked or moved, unlike with `get`. One request looks at a bounded number of
messages and bytes; `next_offset` is where the next one may go on. A filter is a text that is looked
for in the names, the properties and the body of a message, as bytes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.declaring import readable_queue
from warren.management.errors import bad_request
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.queues import master_of_queue, queue_exists
from warren.management.views.messages import show_message
from warren.management.views.moments import show_moment
from warren.queues.queue import Queue
from warren.wire.codec import Message, QueuedMessage

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1_000
OFFSET_MAX: Final = 10**12
_DIGITS_MAX: Final = 18
FILTER_CHARS_MAX: Final = 1_000
TRUNCATE_DEFAULT: Final = 65_536
TRUNCATE_MAX: Final = 16_777_216
# A filter may find nothing for long: then the caller is told how far it was looked.
SCANNED_MAX: Final = 20_000
SCANNED_BYTES_MAX: Final = 33_554_432
# So much is read, looked through and shown at a time.
WINDOW_MESSAGES_MAX: Final = 250
WINDOW_BYTES_MAX: Final = 1_048_576


async def _browse(call: Call) -> JsonObject:
    offset = _number(call, "offset", 0, OFFSET_MAX)
    limit = _number(call, "limit", LIMIT_DEFAULT, LIMIT_MAX)
    truncate = _number(call, "truncate", TRUNCATE_DEFAULT, TRUNCATE_MAX)
    wanted = call.query.get("filter", "")
    if len(wanted) > FILTER_CHARS_MAX:
        raise bad_request(["too_long", "filter"])
    queue = readable_queue(call, call.parts["queue"])
    browsing = _Browsing(queue, offset, limit, wanted.encode(errors="surrogatepass"))
    return {
        "items": [_shown(*found, truncate) async for found in browsing],
        "messages_ready": queue.message_count,
        "next_offset": browsing.next_offset,
        "offset": offset,
    }


class _Browsing:
    """Messages that match, each with its position, up to a limit and within bounds."""

    def __init__(self, queue: Queue, offset: int, limit: int, wanted: bytes) -> None:
        self._queue = queue
        self._position = offset
        self._limit = limit
        self._wanted = wanted
        self._found: list[tuple[int, QueuedMessage]] = []
        self._messages_left = SCANNED_MAX
        self._bytes_left = SCANNED_BYTES_MAX
        self._is_at_end = False

    @property
    def next_offset(self) -> int | None:
        return None if self._is_at_end else self._position

    def __aiter__(self) -> _Browsing:
        return self

    async def __anext__(self) -> tuple[int, QueuedMessage]:
        if self._limit <= 0:
            raise StopAsyncIteration
        while not self._found:
            if self._messages_left <= 0 or self._bytes_left <= 0:
                raise StopAsyncIteration
            if not await self._look_on():
                raise StopAsyncIteration
        self._limit -= 1
        found = self._found.pop(0)
        if self._limit == 0 and self._found:
            self._position = self._found[0][0]
            self._is_at_end = False
        return found

    async def _look_on(self) -> bool:
        """Look at the next window; false if there is none."""
        count = WINDOW_MESSAGES_MAX if self._wanted else min(self._limit, WINDOW_MESSAGES_MAX)
        seen = await self._queue.backing.browse(self._position, count, WINDOW_BYTES_MAX)
        for number, queued in enumerate(seen, self._position):
            if not self._wanted or _holds(queued.message, self._wanted):
                self._found.append((number, queued))
        self._position += len(seen)
        self._messages_left -= len(seen)
        self._bytes_left -= sum(len(queued.message.body) for queued in seen)
        self._is_at_end = not seen or self._position >= self._queue.message_count
        await asyncio.sleep(0)
        return not self._is_at_end or bool(self._found)


def _holds(message: Message, wanted: bytes) -> bool:
    return wanted in message.body or wanted in message.route_key or wanted in message.properties.raw


def _shown(position: int, queued: QueuedMessage, truncate: int) -> JsonObject:
    expires_at_ms = queued.expires_at_ms
    return {
        "position": position,
        **show_message(queued, "auto", truncate),
        "expires_at": show_moment(expires_at_ms) if expires_at_ms else None,
    }


def _number(call: Call, name: str, default: int, highest: int) -> int:
    text = call.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        raise bad_request(["not_integer", name])
    return min(int(text), highest)


RESOURCES: Final = (
    Resource(
        path="/warren/queues/{vhost}/{queue}/browse",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_browse,
        node_of=master_of_queue,
    ),
)
