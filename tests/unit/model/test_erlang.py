"""Erlang's print-outs, recorded from Erlang/OTP 25 (`~w` for octets, `~p` for the rest)."""

from __future__ import annotations

import pytest

from warren.model.erlang import (
    render_binary,
    render_field,
    render_float,
    render_string,
    render_text_binary,
    render_value,
)
from warren.model.fields import EMPTY_TABLE, Field, FieldData, Table, array, longstr


def test_octets_are_always_numbers() -> None:
    assert render_binary(b"AB\x00\xff") == "<<65,66,0,255>>"
    assert render_binary(b"") == "<<>>"


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"abc", '<<"abc">>'),
        (b"", "<<>>"),
        (b"\x01\x02", "<<1,2>>"),
        (b"a\x7f", "<<97,127>>"),
        (b"a\x80", "<<97,128>>"),
        (b'a"\\b\n\t\x1b\r\x0b\x08\x0c', '<<"a\\"\\\\b\\n\\t\\e\\r\\v\\b\\f">>'),
        ("h\u00e9".encode(), '<<"h\u00e9">>'),
    ],
)
def test_printable_binaries_are_shown_as_text(octets: bytes, text: str) -> None:
    assert render_text_binary(octets) == text


@pytest.mark.parametrize(
    ("string", "text"),
    [
        ("expected integer, got longstr", '"expected integer, got longstr"'),
        (b"a\"'\\\n", '"a\\"\'\\\\\\n"'),
        (b"", "[]"),
        (b"\x01\x02", "[1,2]"),
    ],
)
def test_strings_are_quoted_unless_they_cannot_be_printed(string: str | bytes, text: str) -> None:
    assert render_string(string) == text


@pytest.mark.parametrize(
    "text",
    [
        "0.0", "-0.0", "1.0", "10.0", "100.0", "1.0e3", "1.0e4", "1.0e5", "123456.0", "1234567.0",
        "1.0e15", "1.2345678901234568e17", "9007199254740991.0", "9.007199254740992e15", "0.1",
        "0.01", "0.001", "0.0001", "1.2e-4", "1.0e-5", "1.0e-7", "1.5e-7", "1.2345e-5", "3.14",
        "1.0e22", "1.0e100", "1.7976931348623157e308", "5.0e-324", "-2.5", "1.23e4", "1.2e5",
        "1.2e6", "0.0123", "-0.00123", "123456789.123",
    ],
)  # fmt: skip
def test_floats_have_an_exponent_where_that_is_shorter(text: str) -> None:
    assert render_float(float(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "undefined"),
        (True, "true"),
        (5, "5"),
        ((2, 300), "{2,300}"),
        (b"ab", '<<"ab">>'),
        (EMPTY_TABLE, "[]"),
        ((), "[]"),
        (
            Table([("a", longstr("b")), ("n", Field("I", 5))]),
            '[{<<"a">>,longstr,<<"b">>},{<<"n">>,signedint,5}]',
        ),
        (
            array([Field("I", 1), longstr("a")]).value,
            '[{signedint,1},{longstr,<<"a">>}]',
        ),
    ],
)
def test_values_of_every_shape(value: FieldData, text: str) -> None:
    assert render_value(value) == text


def test_a_field_is_shown_with_its_type() -> None:
    assert render_field(longstr("5X")) == '{longstr,<<"5X">>}'
