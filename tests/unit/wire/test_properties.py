"""Property blocks: absent stays absent, empty stays empty, odd bytes stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from field_strategies import tables
from warren.model.fields import EMPTY_TABLE, Field, Table, longstr
from warren.wire.properties import (
    MalformedProperties,
    Properties,
    decode_properties,
    encode_properties,
)

ALL = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers=Table([("k", longstr("v"))]),
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    user_id="guest",
    app_id="a",
    cluster_id="x",
)


def short_strings() -> st.SearchStrategy[str | None]:
    raw = st.binary(max_size=255).map(lambda octets: octets.decode(errors="surrogateescape"))
    return st.none() | raw


def properties() -> st.SearchStrategy[Properties]:
    octets = st.none() | st.integers(0, 255)
    text = short_strings()
    return st.builds(
        Properties,
        content_type=text,
        headers=st.none() | tables(),
        delivery_mode=octets,
        priority=octets,
        correlation_id=text,
        expiration=text,
        timestamp=st.none() | st.integers(0, (1 << 64) - 1),
        user_id=text,
        cluster_id=text,
    )


def test_the_block_is_the_flags_and_then_the_values_in_their_order() -> None:
    assert encode_properties(Properties(content_type="a", priority=7)) == b"\x88\x00\x01a\x07"
    assert encode_properties(ALL)[:2] == b"\xff\xfc"


def test_all_properties_come_back() -> None:
    assert decode_properties(encode_properties(ALL)) == ALL


@given(properties())
def test_any_properties_survive_the_wire(given_properties: Properties) -> None:
    assert decode_properties(encode_properties(given_properties)) == given_properties


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_properties_or_are_refused(block: bytes) -> None:
    try:
        decoded = decode_properties(block)
    except MalformedProperties:
        return
    assert decode_properties(encode_properties(decoded)) == decoded


def test_no_properties_is_not_the_same_as_empty_ones() -> None:
    assert decode_properties(b"\x00\x00") == Properties()
    empty = Properties(content_type="", headers=EMPTY_TABLE)
    assert decode_properties(encode_properties(empty)) == empty


def test_the_two_lowest_flags_are_ignored_as_rabbitmq_does() -> None:
    assert decode_properties(b"\x08\x03\x05") == Properties(priority=5)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x80", id="no flags"),
        pytest.param(b"\x80\x00", id="value missing"),
        pytest.param(b"\x80\x00\x05abc", id="string cut short"),
        pytest.param(b"\x00\x40\x00\x00", id="timestamp cut short"),
        pytest.param(b"\x20\x00\x00\x00\x00\x09", id="headers cut short"),
        pytest.param(b"\x20\x00\x00\x00\x00\x03\x01kZ", id="headers of an unknown type"),
        pytest.param(b"\x10\x00\x02more", id="bytes left over"),
    ],
)
def test_what_is_no_property_block_is_refused(block: bytes) -> None:
    with pytest.raises(MalformedProperties):
        decode_properties(block)


@pytest.mark.parametrize(
    "bad",
    [
        Properties(message_id="x" * 256),
        Properties(priority=256),
        Properties(timestamp=-1),
        Properties(headers=Table([("k", Field("b", 999))])),
    ],
)
def test_what_the_wire_cannot_hold_is_an_error(bad: Properties) -> None:
    with pytest.raises(ValueError, match=r"bytes|wire form"):
        encode_properties(bad)
