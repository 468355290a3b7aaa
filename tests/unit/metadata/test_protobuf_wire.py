"""Protocol Buffers on the wire: published examples, values there and back, broken bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.metadata.protobuf_wire import (
    BadMessage,
    fields,
    integer,
    integer_of_oneof,
    message,
    messages,
    octets,
    signed,
    varint,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.integers(1, 2**29 - 1)


def test_the_examples_of_the_specification() -> None:
    assert integer(1, 150) == bytes.fromhex("089601")
    assert octets(2, b"testing") == bytes.fromhex("120774657374696e67")
    assert message(3, integer(1, 150)) == bytes.fromhex("1a03089601")
    assert varint(-2) == bytes.fromhex("feffffffffffffffff01")


@given(NUMBERS, INT64)
def test_an_integer_is_read_back(number: int, value: int) -> None:
    ((found, whole, part),) = fields(integer_of_oneof(number, value))
    assert (found, signed(whole), part) == (number, value, b"")


@given(NUMBERS, st.binary(max_size=300))
def test_bytes_are_read_back(number: int, value: bytes) -> None:
    assert fields(message(number, value)) == [(number, 0, value)]


@given(NUMBERS, st.lists(st.binary(max_size=200)))
def test_a_repeated_field_keeps_its_order(number: int, values: list[bytes]) -> None:
    assert [part for _, _, part in fields(messages(number, values))] == values


def test_a_default_value_is_left_out_and_an_empty_message_is_not() -> None:
    assert integer(1, 0) == octets(1, b"") == b""
    assert integer_of_oneof(1, 0) == b"\x08\0"
    assert message(1, b"") == b"\x0a\0"


def test_fixed_width_fields_are_skipped() -> None:
    fixed_64, fixed_32 = b"\x09" + bytes(8), b"\x15" + bytes(4)
    assert fields(fixed_64 + integer(3, 7) + fixed_32) == [(3, 7, b"")]


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x08",
        b"\x08\x80",
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\x12\x05four",
        b"\x12" + varint(2**63) + b"x",
        b"\x09" + bytes(7),
        b"\x15" + bytes(3),
        b"\x0b",
        b"\x0c",
    ],
)
def test_broken_bytes_are_refused(encoded: bytes) -> None:
    with pytest.raises(BadMessage):
        fields(encoded)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(encoded: bytes) -> None:
    try:
        found = fields(encoded)
    except BadMessage:
        return
    assert sum(len(part) for _, _, part in found) <= len(encoded)
