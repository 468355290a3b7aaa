"""Rows of a list on their way from node to node, and lists of several nodes merged into one.

A row is what an item is ordered by, and the item. Each node sends its rows in order, so whoever
asked needs to look at the first of each only, and holds no more of a list than is under way. They
travel in batches: msgpack, each with its length in front, however the link cuts them up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from warren.management.sorting import Order

T = TypeVar("T")

Row: TypeAlias = tuple[Order, T]

_LENGTH_BYTES: Final = 4
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Any])


def encode_batch(batch: Sequence[Any]) -> bytes:
    data = _encoder.encode(batch)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


async def decode_batches(parts: AsyncIterator[bytes]) -> AsyncIterator[list[Any]]:
    """Raises what reading the parts raises; a batch that is cut off is left out."""
    pending = bytearray()
    async for part in parts:
        pending += part
        while len(pending) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(pending[:_LENGTH_BYTES], "big")
            if len(pending) < end:
                break
            yield _decoder.decode(memoryview(bytes(pending[_LENGTH_BYTES:end])))
            del pending[:end]


async def in_batches(items: Iterable[T], size: int) -> AsyncIterator[list[T]]:
    """With a turn of the loop after each."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
        await asyncio.sleep(0)


class _Source(Iterator[Row[T]]):
    """A list that comes in batches, of which the first row is looked at."""

    def __init__(self, batches: AsyncIterator[Sequence[Row[T]]]) -> None:
        self._batches = batches
        self.rows: deque[Row[T]] = deque()

    async def fill(self) -> bool:
        """False when there is no more."""
        while not self.rows:
            batch = await anext(self._batches, None)
            if batch is None:
                return False
            self.rows.extend(batch)
        return True

    def __next__(self) -> Row[T]:
        return self.rows.popleft()


async def merged(
    lists: Iterable[AsyncIterator[Sequence[Row[T]]]], is_reversed: bool
) -> AsyncIterator[Row[T]]:
    """All rows of several lists, which are in order, in order."""
    first = max if is_reversed else min
    sources = [source for source in map(_Source[T], lists) if await source.fill()]
    while sources:
        # There are as many as nodes: to look at each is quicker than to keep a heap.
        source = first(sources, key=_head) if len(sources) > 1 else sources[0]
        yield next(source)
        if not source.rows and not await source.fill():
            sources.remove(source)


def _head(source: _Source[Any]) -> Order:
    return source.rows[0][0]
