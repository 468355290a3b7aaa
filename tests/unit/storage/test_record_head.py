"""Both ways to encode a record agree, and a record is what record_format.py says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store_world import make_message
from warren.storage.bodies import _record_head_py, record_head
from warren.storage.bodies.record_format import (
    RECORD_HEADER_BYTES,
    TRAILER,
    file_header,
    parse_file_header,
    parse_header,
    parse_payload,
    resalted_header,
)

u32 = st.integers(0, 2**32 - 1)


@given(
    key=st.binary(max_size=512),
    properties=st.binary(max_size=300),
    body=st.binary(max_size=3_000),
    references=st.integers(1, 2**32 - 1),
    place=st.tuples(u32, u32, u32),
)
def test_both_ways_make_the_same_record(
    key: bytes, properties: bytes, body: bytes, references: int, place: tuple[int, int, int]
) -> None:
    message = make_message(body, key, b"\0\0" + properties)
    head = record_head.encode_head(message, references, *place)
    assert head == _record_head_py.encode_head(message, references, *place)
    file, offset, salt = place
    header = parse_header(head, salt)
    assert header is not None
    assert (header.references, header.home_file, header.home_offset) == (references, file, offset)
    assert header.record_bytes == len(head) + len(body) + len(TRAILER)
    found = parse_payload(header, head[RECORD_HEADER_BYTES:], body)
    assert found is not None
    assert (found.route_key, found.properties.raw, found.body) == (
        key,
        message.properties.raw,
        body,
    )


def test_a_header_is_only_good_in_a_file_of_its_salt() -> None:
    head = record_head.encode_head(make_message(b"x"), 1, 2, 3, 77)
    assert parse_header(head, 77) is not None
    assert parse_header(head, 78) is None
    assert parse_header(resalted_header(head, 78), 78) == parse_header(head, 77)


def test_a_checksum_that_disagrees_makes_no_message() -> None:
    message = make_message(b"body")
    head = record_head.encode_head(message, 1, 0, 20, 0)
    header = parse_header(head, 0)
    assert header is not None
    assert parse_payload(header, head[RECORD_HEADER_BYTES:], b"bodx") is None


@pytest.mark.parametrize("length", range(20))
def test_a_file_header_that_is_not_whole_is_none(length: int) -> None:
    header = file_header(5, 99)
    assert parse_file_header(header, 5) == 99
    assert parse_file_header(header, 6) is None
    assert parse_file_header(header[:length], 5) is None
