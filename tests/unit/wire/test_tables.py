"""Field tables: what goes in comes out, type and all; what is no table is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from field_strategies import tables
from warren.model.fields import EMPTY_TABLE, Field, Table, array, longstr
from warren.model.limits import TABLE_DEPTH_MAX
from warren.wire.tables import (
    MalformedTable,
    decode_table,
    decode_table_body,
    encode_table,
    python_to_table,
    table_to_python,
)

EVERY_TYPE = Table(
    [
        ("bool", Field("t", True)),
        ("int8", Field("b", -5)),
        ("uint8", Field("B", 200)),
        ("int16", Field("s", -300)),
        ("uint16", Field("u", 60_000)),
        ("int32", Field("I", -70_000)),
        ("uint32", Field("i", 4_000_000_000)),
        ("int64", Field("l", -1_099_511_627_776)),
        ("float", Field("f", 1.5)),
        ("double", Field("d", 2.25)),
        ("decimal", Field("D", (2, 12_345))),
        ("text", longstr("h\u00e9llo")),
        ("array", array([Field("I", 1), longstr("two"), Field("t", False), Field("V", None)])),
        ("timestamp", Field("T", 1_700_000_000)),
        ("table", Field("F", Table([("inner", Field("F", EMPTY_TABLE))]))),
        ("void", Field("V", None)),
        ("bytes", Field("x", b"\x00\x01\x02")),
    ]
)


def entry(value: bytes, name: bytes = b"k") -> bytes:
    """A table of one entry, its value given as type letter and bytes."""
    body = bytes((len(name),)) + name + value
    return struct.pack(">I", len(body)) + body


def test_every_type_comes_back_with_the_same_type_and_value() -> None:
    assert decode_table(encode_table(EVERY_TYPE)) == (EVERY_TYPE, len(encode_table(EVERY_TYPE)))


@given(tables())
def test_any_table_survives_the_wire(table: Table) -> None:
    assert decode_table_body(encode_table(table)[4:]) == table


@given(tables(), st.binary(max_size=5), st.binary(max_size=5))
def test_a_table_ends_where_it_says_whatever_follows(
    table: Table, before: bytes, after: bytes
) -> None:
    encoded = encode_table(table)
    data = before + encoded + after
    assert decode_table(data, len(before)) == (table, len(before) + len(encoded))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_table_or_are_refused(data: bytes) -> None:
    try:
        table = decode_table_body(data)
    except MalformedTable:
        return
    assert decode_table_body(encode_table(table)[4:]) == table


@given(tables(), st.data())
def test_a_table_cut_short_is_refused(table: Table, data: st.DataObject) -> None:
    encoded = encode_table(table)
    end = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedTable):
        decode_table(encoded[:end])


@pytest.mark.parametrize("letter", [b"l", b"L"])
def test_both_letters_for_64_bits_are_signed_and_the_small_one_is_written(letter: bytes) -> None:
    table, _ = decode_table(entry(letter + b"\xff" * 8))
    field = table.get("k")
    assert field is not None
    assert field.value == -1
    assert field.type_name == "long"
    assert encode_table(table) == entry(b"l" + b"\xff" * 8)


def test_the_letter_s_is_a_16_bit_number_and_no_short_string() -> None:
    table, _ = decode_table(entry(b"s\x80\x00"))
    assert table == Table([("k", Field("s", -32_768))])


def test_any_octet_but_zero_is_true() -> None:
    table, _ = decode_table(entry(b"t\x07"))
    assert table == Table([("k", Field("t", True))])


def test_duplicate_names_stay_and_the_first_is_found() -> None:
    table = Table([("k", Field("I", 1)), ("k", Field("I", 2))])
    decoded, _ = decode_table(encode_table(table))
    assert len(decoded) == 2
    assert decoded.get("k") == Field("I", 1)


def test_a_name_that_is_not_utf8_comes_back_byte_for_byte() -> None:
    data = entry(b"V", name=b"\xff\xfe")
    table, _ = decode_table(data)
    assert encode_table(table) == data


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(entry(b"Z\x00"), id="unknown type letter"),
        pytest.param(entry(b"I\x00\x00\x00"), id="number cut short"),
        pytest.param(entry(b"S\x00\x00\x00\x05abcd"), id="string longer than its table"),
        pytest.param(entry(b""), id="name without a value"),
        pytest.param(b"\x00\x00\x00\x01\x05", id="name longer than its table"),
        pytest.param(b"\x00\x00\x00\x09\x01kV", id="table longer than the data"),
        pytest.param(b"\x00\x00", id="length cut short"),
        pytest.param(entry(b"A\x00\x00\x00\x02I\x00"), id="array item longer than the array"),
        pytest.param(entry(b"F\x00\x00\x00\x03\x01kI"), id="inner table's value missing"),
        pytest.param(entry(b"d" + struct.pack(">d", float("nan"))), id="not a number"),
        pytest.param(entry(b"f" + struct.pack(">f", float("inf"))), id="infinity"),
    ],
)
def test_what_is_no_table_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedTable):
        decode_table(data)


def nested(kind: str, depth: int) -> bytes:
    field = Field("F", EMPTY_TABLE) if kind == "F" else Field("A", ())
    for _ in range(depth - 1):
        field = Field("F", Table([("k", field)])) if kind == "F" else Field("A", (field,))
    return encode_table(Table([("k", field)]))


@pytest.mark.parametrize("kind", ["F", "A"])
def test_nesting_has_a_bound(kind: str) -> None:
    decode_table(nested(kind, TABLE_DEPTH_MAX - 1))
    with pytest.raises(MalformedTable, match="nested"):
        decode_table(nested(kind, TABLE_DEPTH_MAX))


@pytest.mark.parametrize(
    "table",
    [
        Table([("k" * 256, Field("V", None))]),
        Table([("k", Field("b", 128))]),
        Table([("k", Field("i", -1))]),
        Table([("k", Field("S", 5))]),
        Table([("k", Field("?", 5))]),
    ],
)
def test_what_the_wire_cannot_hold_is_an_error_and_not_a_wrong_table(table: Table) -> None:
    with pytest.raises(ValueError, match=r"names have|no wire form"):
        encode_table(table)


def test_plain_values_become_the_types_rabbitmq_would_choose() -> None:
    plain = {"s": "text", "b": True, "n": 5, "f": 1.5, "v": None, "a": [1, "x"], "t": {"k": 1}}
    assert python_to_table(plain) == Table(
        [
            ("s", longstr("text")),
            ("b", Field("t", True)),
            ("n", Field("l", 5)),
            ("f", Field("d", 1.5)),
            ("v", Field("V", None)),
            ("a", array([Field("l", 1), longstr("x")])),
            ("t", Field("F", Table([("k", Field("l", 1))]))),
        ]
    )
    assert table_to_python(python_to_table(plain)) == plain


def test_plain_values_of_a_table_take_the_first_of_duplicates() -> None:
    table = Table([("k", Field("I", 1)), ("k", Field("I", 2)), ("d", Field("D", (2, 150)))])
    assert table_to_python(table) == {"k": 1, "d": 1.5}


def test_bytes_that_are_no_text_are_shown_as_base64() -> None:
    table = Table([("k", longstr(b"\xff"))])
    assert table_to_python(table) == {"k": "Not UTF-8, base64 is: /w=="}


def test_a_value_without_a_field_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no field type for set"):
        python_to_table({"k": {1, 2}})
