"""How far one consumer of a stream has come, and what of it is at hand."""

from __future__ import annotations

from collections import deque

from warren.streams.chunks import decode_chunk, with_offsets
from warren.streams.reading import Place, Stretch
from warren.streams.recent_chunks import RecentChunk
from warren.wire.codec import Message


class StreamCursor:
    def __init__(self, offset: int) -> None:
        self.offset = offset
        """Of the next record to be delivered."""
        self.is_reading = False
        self.messages: list[Message] = []
        self.first_offset = offset
        """Of the first of `messages`."""
        self.place: Place | None = None
        """Where what comes behind all that was read is, as far as it is known."""
        self._stretch: Stretch | None = None
        self._chunks: deque[int] = deque()

    def peek(self) -> Message | None:
        """The next record, if it is at hand."""
        position = self.offset - self.first_offset
        if position < len(self.messages):
            return self.messages[position]
        return None

    def take_recent(self, recent: deque[RecentChunk]) -> bool:
        """Whether the next record is among what was committed lately; then it is at hand."""
        if not recent or self.offset < recent[0].first_offset:
            return False
        for chunk in recent:
            if self.offset < chunk.end:
                self.messages = chunk.messages()
                self.first_offset = chunk.first_offset
                self.place = None
                return True
        return False

    def take_read(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self._chunks = deque(range(len(stretch.chunks)))
        self.place = stretch.after
        if not stretch.chunks and stretch.damaged_end is not None:
            self._skip_damaged(stretch)

    def take_chunk(self) -> bool:
        """Whether there was another chunk that has been read; then it is at hand."""
        stretch = self._stretch
        while stretch is not None and self._chunks:
            position, header = stretch.chunks[self._chunks.popleft()]
            if self.offset >= header.end_offset:
                continue
            self.first_offset = header.first_offset
            self.offset = max(self.offset, header.first_offset)
            self.messages = with_offsets(decode_chunk(stretch.data, position), self.first_offset)
            return True
        self._stretch = None
        if stretch is not None and stretch.damaged_end is not None:
            self._skip_damaged(stretch)
        return False

    def _skip_damaged(self, stretch: Stretch) -> None:
        assert stretch.damaged_end is not None, "asked by who calls"
        self.offset = max(self.offset, stretch.damaged_end)
        self.place = None

    def move(self, offset: int) -> None:
        """Go on somewhere else: nothing that is at hand is of use."""
        self.offset = offset
        self.messages = []
        self.first_offset = offset
        self.place = None
        self._stretch = None
        self._chunks.clear()
