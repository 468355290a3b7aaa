"""A range of a stream that can be read to its end, whatever retention removes meanwhile.

An answer says how long it is before any of it is sent, so all of it must stay readable until then.
A file that was opened does, when its name is gone; its space is free when the range is let go. So
the data files of a range are opened as soon as it is known which they are, in the same call.

Whoever asked may be gone before the files are open, or while they are read, and lets go from the
loop. So each call has the range for itself, and nothing is opened or read once it is let go.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from warren.streams.ranges import Span, pieces_of
from warren.streams.reading import SegmentReader
from warren.streams.segments import Segment


class HeldPiece(NamedTuple):
    """Bytes of a file that is open."""

    descriptor: int
    start: int
    end: int


class LetGo(Exception):
    """The range is not wanted any more."""


class HeldRange:
    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self._lock = Lock()
        self._is_wanted = True
        self.pieces: list[HeldPiece] = []

    @property
    def size(self) -> int:
        return sum(piece.end - piece.start for piece in self.pieces)

    def open(self, segments: Sequence[Segment], span: Span, bytes_max: int | None) -> None:
        """Raises FileNotFoundError, and holds nothing, if retention was quicker. Blocks."""
        with self._lock:
            self._require_wanted()
            try:
                for piece in pieces_of(self._reader, segments, span, bytes_max):
                    descriptor = self._reader.open_data(piece.base)
                    self.pieces.append(HeldPiece(descriptor, piece.start, piece.end))
            except BaseException:
                self._close_all()
                raise

    def read(self, piece: HeldPiece, start: int, size: int) -> bytes:
        """Blocks."""
        with self._lock:
            self._require_wanted()
            return self._reader.read_bytes(piece.descriptor, start, size)

    def let_go(self) -> None:
        """Closing the last of a long file that has no name any more takes its time. Blocks."""
        with self._lock:
            self._is_wanted = False
            self._close_all()

    def _require_wanted(self) -> None:
        if not self._is_wanted:
            raise LetGo

    def _close_all(self) -> None:
        while self.pieces:
            self._reader.close_data(self.pieces.pop().descriptor)
