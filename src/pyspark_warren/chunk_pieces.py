"""Cuts a long answer into pieces of whole chunks, so that nobody holds all of it.

A piece has a buffer of its own, since Arrow arrays stay in it. What is left of a chunk at its end
is copied to the beginning of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyspark_warren.errors import MalformedAnswer
from warren.streams.chunk_format import CHUNK_BYTES_MAX, HEADER_BYTES, MAGIC

# A piece is about so long, or a chunk if that is longer: little enough to stay in a processor's
# cache until it is decoded.
PIECE_BYTES: Final = 4 * 1_048_576
# Where a chunk says how long it is.
_SIZE_AT: Final = 48


class BrokenOff(Exception):
    """An answer ends within a chunk."""


def whole_chunks(read_into: Callable[[memoryview], int]) -> Iterator[memoryview]:
    """Pieces of what `read_into` gives until that is nothing. Raises BrokenOff."""
    rest = memoryview(b"")
    while True:
        size = max(PIECE_BYTES, HEADER_BYTES, _first_size(rest))
        buffer = memoryview(bytearray(size))
        buffer[: len(rest)] = rest
        filled = len(rest)
        while filled < size and (count := read_into(buffer[filled:])):
            filled += count
        end = end_of_whole(buffer[:filled])
        if end:
            yield buffer[:end].toreadonly()
        rest = buffer[end:filled]
        if filled < size:
            break
    if rest:
        raise BrokenOff


def _first_size(data: memoryview) -> int:
    """Of the chunk that begins there; 0 if that is not to be seen yet."""
    if len(data) < HEADER_BYTES:
        return 0
    size = int.from_bytes(data[_SIZE_AT : _SIZE_AT + 4], "little")
    is_chunk = int.from_bytes(data[:4], "little") == MAGIC
    if not is_chunk or not HEADER_BYTES <= size <= CHUNK_BYTES_MAX:
        raise MalformedAnswer("an answer is not made of chunks")
    return size


def end_of_whole(data: memoryview) -> int:
    """Where the last chunk ends that is there whole."""
    end = 0
    while (size := _first_size(data[end:])) and end + size <= len(data):
        end += size
    return end
