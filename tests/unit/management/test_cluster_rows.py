"""Lists of several nodes become one, in order, however they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warren.management.cluster.rows import decode_batches, encode_batch, in_batches, merged

keys = st.lists(st.lists(st.one_of(st.integers(0, 9)), min_size=2, max_size=2), max_size=30)


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def everything(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


async def batches_of(rows: Sequence[Any], size: int) -> AsyncIterator[Sequence[Any]]:
    async for batch in in_batches(rows, size):
        yield batch


@given(st.lists(st.lists(st.binary(max_size=40))), st.integers(1, 50))
def test_batches_survive_being_cut_up_anywhere(batches: list[list[bytes]], size: int) -> None:
    data = b"".join(encode_batch(batch) for batch in batches)
    assert asyncio.run(everything(decode_batches(pieces(data, size)))) == batches


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    data = encode_batch([1, 2]) + encode_batch([3])[:-1]
    assert asyncio.run(everything(decode_batches(pieces(data, 3)))) == [[1, 2]]


@given(st.lists(keys, max_size=4), st.booleans(), st.integers(1, 7))
def test_lists_in_order_make_one_list_in_order(
    lists: list[list[list[int]]], is_reversed: bool, size: int
) -> None:
    in_order = [sorted(keys, reverse=is_reversed) for keys in lists]
    rows = [[(key, number) for key in keys] for number, keys in enumerate(in_order)]
    found = asyncio.run(everything(merged([batches_of(r, size) for r in rows], is_reversed)))
    every_key = sorted((key for keys in lists for key in keys), reverse=is_reversed)
    assert [key for key, _ in found] == every_key
    for number, keys_of_one in enumerate(in_order):
        assert [key for key, whose in found if whose == number] == keys_of_one


def test_a_list_that_breaks_off_ends_and_the_others_go_on() -> None:
    async def broken() -> AsyncIterator[Sequence[Any]]:
        yield [([1], "broken")]

    async def whole() -> list[Any]:
        rows = [([0], "whole"), ([2], "whole")]
        return await everything(merged([broken(), batches_of(rows, 1)], False))

    assert [item for _, item in asyncio.run(whole())] == ["whole", "broken", "whole"]
