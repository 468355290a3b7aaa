"""What a master has to tell its mirrors at the end of this turn of the loop.

Numbers that follow each other become runs as they come in, so that telling of a thousand messages
costs little more than telling of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.replication.classic.instructions import Changes, encode
from warren.replication.classic.message_frames import MessageFrames
from warren.wire.codec import Message

# How urgent it is to tell the mirrors: when the turn ends, with other queues, or with messages.
NOW: Final = 0
SOON: Final = 1
LATER: Final = 2

MANY_MESSAGES: Final = 16
"""Messages that need not wait for those of other queues: they are worth a frame of their own."""
MANY_REMOVALS: Final = 256
"""Removals that need not wait for messages: so many come again, marked, after a failover."""


class Outbox:
    """`on_due(urgency)` is called when there is something to tell, and when that gets more urgent.

    Somebody waits for a message that has come, nobody for one that is gone. So the latter may wait
    for the former, and go with them.
    """

    def __init__(self, on_due: Callable[[int], None]) -> None:
        self._on_due = on_due
        self.is_urgent = False
        """Whether there is more than removals."""
        self.message_count = 0
        self._removal_count = 0
        self._frames = MessageFrames()
        self._published: list[tuple[int, int, int]] = []
        self._origins: list[tuple[str, int, int]] = []
        self._expiries: list[int] = []
        self._has_expiries = False
        self._removed: list[tuple[int, int, int, int]] = []
        self.is_empty = True
        self.size = 0
        """Of the messages, in bytes."""
        # The runs that are being gathered.
        self._level = 0
        self._first = 0
        self._count = 0
        self._origin = ""
        self._origin_first = 0
        self._origin_count = 0
        self._gone_level = 0
        self._gone_first = 0
        self._gone_count = 0
        self._gone_bytes = 0

    def publish(self, message: Message, level: int, sequence: int, expires_at_ms: int) -> None:
        self.is_empty = False
        self.message_count += 1
        if not self.is_urgent:
            self.is_urgent = True
            self._on_due(SOON)
        elif self.message_count == MANY_MESSAGES:
            self._on_due(NOW)
        self.size = self._frames.add(message)
        if level != self._level or sequence != self._first + self._count or not self._count:
            self._close_published()
            self._level = level
            self._first = sequence
        self._count += 1
        self._expiries.append(expires_at_ms)
        if expires_at_ms:
            self._has_expiries = True

    def origin(self, origin: str, number: int) -> None:
        """Of the message that was just published: who waits for it, under which number."""
        if origin != self._origin or number != self._origin_first + self._origin_count:
            self._close_origin()
            self._origin = origin
            self._origin_first = number
        self._origin_count += 1

    def remove(self, level: int, sequence: int, size: int) -> None:
        self._removal_count += 1
        if self.is_empty:
            self.is_empty = False
            self._on_due(LATER)
        elif self._removal_count == MANY_REMOVALS:
            self._on_due(SOON)
        if level != self._gone_level or sequence != self._gone_first + self._gone_count:
            self.close_removed()
            self._gone_level = level
            self._gone_first = sequence
        self._gone_count += 1
        self._gone_bytes += size

    def take(self, number: int) -> bytes:
        """One batch, under this number."""
        self._close_published()
        self._close_origin()
        self.close_removed()
        changes = Changes(
            tuple(self._published),
            tuple(self._origins),
            tuple(self._expiries) if self._has_expiries else (),
            tuple(self._removed),
        )
        self._published = []
        self._origins = []
        self._expiries = []
        self._has_expiries = False
        self._removed = []
        self.is_empty = True
        self.is_urgent = False
        self.message_count = self._removal_count = 0
        self.size = 0
        return encode(number, changes, self._frames.take())

    def close_removed(self) -> None:
        """What follows is another run, even if its number follows."""
        if self._gone_count:
            run = (self._gone_level, self._gone_first, self._gone_count, self._gone_bytes)
            self._removed.append(run)
            self._gone_count = self._gone_bytes = 0

    def _close_published(self) -> None:
        if self._count:
            self._published.append((self._level, self._first, self._count))
            self._count = 0

    def _close_origin(self) -> None:
        if self._origin_count:
            self._origins.append((self._origin, self._origin_first, self._origin_count))
            self._origin_count = 0
