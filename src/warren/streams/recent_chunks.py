"""What was committed last, in memory for those who follow closely."""

from __future__ import annotations

from collections import deque
from typing import Final

from warren.streams.chunks import with_offsets
from warren.wire.codec import Message

RECENT_BYTES_MAX: Final = 4 * 1_048_576


class RecentChunk:
    """A chunk as it was written, while it is in memory."""

    __slots__ = ("_messages", "_told", "end", "first_offset", "size")

    def __init__(self, first_offset: int, messages: list[Message], size: int) -> None:
        self.first_offset = first_offset
        self.end = first_offset + len(messages)
        self.size = size
        self._messages = messages
        self._told: list[Message] | None = None

    def messages(self) -> list[Message]:
        """As consumers get them, made once for all of them."""
        if self._told is None:
            self._told = with_offsets(self._messages, self.first_offset)
        return self._told


class RecentChunks(deque[RecentChunk]):
    """The newest, one after another."""

    bytes = 0

    def add(self, chunk: RecentChunk) -> None:
        self.append(chunk)
        self.bytes += chunk.size
        while self.bytes > RECENT_BYTES_MAX and len(self) > 1:
            self.bytes -= self.popleft().size

    def clear(self) -> None:
        super().clear()
        self.bytes = 0
