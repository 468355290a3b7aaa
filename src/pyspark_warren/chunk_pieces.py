"""Cuts a long answer into pieces of whole chunks, so that nobody holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyspark_warren.errors import MalformedAnswer
from warren.streams.chunk_format import HEADER_BYTES

# A piece is about so long, or a chunk if that is longer.
PIECE_BYTES: Final = 16 * 1_048_576
# Where a chunk says how long it is.
_SIZE_AT: Final = 48


def whole_chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Pieces of what `read(size)` gives until that is nothing."""
    pending = bytearray()
    while data := read(PIECE_BYTES):
        pending += data
        end = _end_of_whole(pending)
        if end:
            yield bytes(pending[:end])
            del pending[:end]
    if pending:
        raise MalformedAnswer("an answer ends within a chunk")


def _end_of_whole(data: bytearray) -> int:
    """Where the last chunk ends that is there whole."""
    end = 0
    while len(data) - end >= HEADER_BYTES:
        size = int.from_bytes(data[end + _SIZE_AT : end + _SIZE_AT + 4], "little")
        if size < HEADER_BYTES:
            raise MalformedAnswer("an answer is not made of chunks")
        if end + size > len(data):
            break
        end += size
    return end
