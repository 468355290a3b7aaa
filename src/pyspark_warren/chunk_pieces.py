"""Cuts a long answer into pieces of whole chunks, so that nobody holds all of it.

Two buffers take turns, since memory that is used for the first time costs more than what is done
with it here. So a piece is good until the one after the next is asked for: while somebody decodes
one, the next may be on its way. What is left of a chunk at its end is copied to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
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
    buffers = [memoryview(bytearray(PIECE_BYTES)) for _ in range(2)]
    rest = memoryview(b"")
    for turn in cycle((0, 1)):
        size = max(HEADER_BYTES, _first_size(rest))
        if size > len(buffers[turn]):
            buffers[turn] = memoryview(bytearray(size))
        buffer = buffers[turn]
        buffer[: len(rest)] = rest
        filled = len(rest)
        while filled < len(buffer) and (count := read_into(buffer[filled:])):
            filled += count
        end = end_of_whole(buffer[:filled])
        if end:
            yield buffer[:end].toreadonly()
        rest = buffer[end:filled]
        if filled < len(buffer):
            break
    if rest:
        raise BrokenOff("within a chunk")


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
