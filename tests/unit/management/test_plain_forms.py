"""Plain forms are decoded as Python does it, and others have their turn meanwhile."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.management.plain_forms import (
    FIELDS_MAX,
    SLICE_BYTES,
    TooManyFields,
    plain_form_fields,
)


def decoded(raw: bytes) -> dict[str, bytes]:
    return asyncio.run(plain_form_fields(raw))


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_what_a_browser_sends_is_read(fields: dict[str, str]) -> None:
    found = decoded(urlencode(fields).encode())
    assert {name: value.decode() for name, value in found.items()} == fields


@pytest.mark.parametrize(
    "raw", [b"a=1&a=2", b"a", b"a=&b=+%20", b"=x", b"&&a=b=c", b"a=%zz%4&b=%", b"a%41=%41%c3%a9"]
)
def test_odd_forms_are_read_as_python_reads_them(raw: bytes) -> None:
    expected = parse_qs(raw.decode(), keep_blank_values=True)
    assert {name: value.decode() for name, value in decoded(raw).items()} == {
        name: values[-1] for name, values in expected.items()
    }


@pytest.mark.parametrize("shift", range(4))
def test_no_escape_is_cut_in_two(shift: int) -> None:
    raw = b"a=" + b"x" * shift + b"%41" * SLICE_BYTES
    assert decoded(raw) == {"a": b"x" * shift + b"A" * SLICE_BYTES}


def test_others_have_their_turn_while_a_large_form_is_decoded() -> None:
    async def measure() -> int:
        turns = 0
        form = asyncio.create_task(plain_form_fields(b"a=" + b"%41" * 33_000))
        while not form.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(measure()) > 99_000 // SLICE_BYTES


def test_too_many_fields_are_refused() -> None:
    assert len(decoded(b"&".join(b"f%d=1" % number for number in range(FIELDS_MAX)))) == FIELDS_MAX
    with pytest.raises(TooManyFields):
        decoded(b"&" * FIELDS_MAX)
