"""Putting long lists in order without holding up the event loop.

Erlang compares any two values: numbers come before truth values, these before objects, lists and
texts, and what a thing lacks counts as 0. `order_of` makes Python's values comparable in that way.

A list is sorted in slices, with a turn of the loop between them, and merged lazily: the first page
of twenty thousand queues costs a hundred steps of the merge, not a sort of everything at once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from warren.management.json_types import Json, JsonObject

T = TypeVar("T")

# So many keys are made and sorted in about a millisecond.
SORTED_AT_ONCE_MAX: Final = 500
SKIPPED_AT_ONCE_MAX: Final = 1_000

# What an item says of a column that it does not have.
LACKING: Final = object()
# Anything that can be compared with its like.
Order: TypeAlias = Any


def order_of(value: Json) -> list[Any]:
    if value is LACKING:
        return [0, 0]
    if value is True or value is False or value is None:
        return [1, str(value).lower()]
    if isinstance(value, int | float):
        return [0, value]
    if isinstance(value, str):
        return [4, value]
    return [2 if isinstance(value, dict) else 3, len(value)]


def dotted_value(item: JsonObject, name: str) -> Json:
    """`message_stats.publish_details.rate`, or 0 where there is no such thing."""
    value: Json = item
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return 0
        value = value[part]
    return value


async def sorted_rows(
    items: Sequence[T],
    key: Callable[[T], Order],
    is_reversed: bool,
    sorted_at_once: int = SORTED_AT_ONCE_MAX,
) -> Iterator[tuple[Order, T]]:
    """Each with its key; `sorted_at_once` is less where a key is dear."""
    runs: list[list[tuple[Order, int, T]]] = []
    async for part in in_slices(items, sorted_at_once):
        # The number decides between equals: items themselves cannot be compared.
        run = [(key(item), number, item) for number, item in enumerate(part, len(runs) << 32)]
        run.sort(reverse=is_reversed)
        runs.append(run)
    merged = runs[0] if len(runs) == 1 else heapq.merge(*runs, reverse=is_reversed)
    return ((order, item) for order, _, item in merged)


async def skip(items: Iterator[T], count: int) -> None:
    """Pass over so many of them."""
    while count > 0:
        step = min(count, SKIPPED_AT_ONCE_MAX)
        deque(islice(items, step), maxlen=0)
        count -= step
        await asyncio.sleep(0)


async def in_slices(items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Slices of the list; whoever else has something to do on the loop does it between them."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]
