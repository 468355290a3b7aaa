"""Who is told what becomes of a log that has copies."""

from __future__ import annotations

from typing import Protocol

from warren.streams.pending_chunks import PendingChunk


class LogWatcher(Protocol):
    def encoded(self, chunks: list[PendingChunk]) -> None:
        """These messages of the backing's have offsets now, and are about to be written."""
        ...

    def written(self, end: int) -> None:
        """All before this offset is safe here."""
        ...

    def failed(self) -> None:
        """The disk would not take something; it is tried again."""
        ...

    def counted(self) -> None:
        """How much there is to read has changed."""
        ...
