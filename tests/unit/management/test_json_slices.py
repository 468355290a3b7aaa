"""Large JSON in slices: the same as at once, and never much in one turn of the loop."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.management import json_slices
from warren.management.json_slices import (
    AT_ONCE_BYTES_MAX,
    VALUES_PER_SLICE,
    NotJson,
    TooManyValues,
    _in_slices,
    decode_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
)  # fmt: skip


@given(VALUES, st.sampled_from([None, 2]))
@settings(max_examples=300, deadline=None)
def test_a_value_comes_back(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert asyncio.run(_in_slices(text.encode(errors="surrogatepass"))) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "[", "[1", "[1,", "[1,]", "[,]", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,}', "{1:2}",
     "{,}", "]", "[}", "[1}", '{"a":1]', "1 2", "[1] 2", "NaN", "-Infinity", "[nul]", '"a', "[1 2]",
     '{"a" 1}', "[" * 1000, '"\\ud800"', "[\x01]"],
)  # fmt: skip
async def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        msgspec.json.decode(text.encode())
    with pytest.raises((NotJson, ValueError)):
        await _in_slices(text.encode())


@pytest.mark.parametrize("depth", [1, 2, 4])
async def test_others_have_their_turn_while_a_large_body_is_decoded(depth: int) -> None:
    count = AT_ONCE_BYTES_MAX
    opened, closed = b"[" * depth, b"]" * depth
    raw = b'{"value":' + opened + b"[]," * count + b"[]" + closed + b"}"
    turns = 0

    async def look() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    decoded = await decode_json(raw)
    looking.cancel()
    # An empty list is two steps: it is opened and closed.
    assert turns >= count // VALUES_PER_SLICE
    assert decoded == msgspec.json.decode(raw)


async def test_a_long_string_is_decoded_at_once() -> None:
    raw = json.dumps({"payload": "\n" * 2_000_000, "properties": {}}).encode()
    assert await decode_json(raw) == {"payload": "\n" * 2_000_000, "properties": {}}


async def test_a_list_and_what_is_very_large_are_decoded_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = list(range(AT_ONCE_BYTES_MAX))
    assert await decode_json(json.dumps(numbers).encode()) == numbers
    monkeypatch.setattr(json_slices, "SKIMMED_BYTES_MAX", 10)
    assert await decode_json(json.dumps({"a": numbers}).encode()) == {"a": numbers}
    with pytest.raises(NotJson):
        await decode_json(json.dumps({"a": numbers}).encode() + b"x")


@pytest.mark.parametrize(
    "raw", [b"[" + b"[]," * 20_000 + b"[]]", b'{"a":[' + b"1," * 20_000 + b"1]}"]
)
async def test_a_body_with_very_many_values_is_refused_before_they_are_all_in_memory(
    monkeypatch: pytest.MonkeyPatch, raw: bytes
) -> None:
    await decode_json(raw)
    monkeypatch.setattr(json_slices, "VALUES_MAX", 10_000)
    with pytest.raises(TooManyValues, match="more than 10,000 values"):
        await decode_json(raw)
