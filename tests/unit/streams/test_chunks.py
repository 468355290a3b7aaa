"""Chunks: the same from both kernels, and back again as they were."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.storage.disk.checksum import crc32c
from warren.streams import _chunk_py, chunks
from warren.streams.chunk_format import (
    CHECKSUMS_AT,
    HEADER_BYTES,
    SUMMED_BYTES,
    MalformedChunk,
    is_sound,
    read_header,
)
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import decode_properties
from warren.wire.tables import encode_table, python_to_table, table_to_python

RAW_BLOCKS = (
    b"\x00\x00",
    b"\x10\x00\x02",
    b"\x90\x00\x04text\x02",
    b"\xb0\x00\x04text" + encode_table(python_to_table({"a": 1, "b": "two"})) + b"\x01",
    b"\x20\x00" + encode_table(python_to_table({"x-stream-offset": 7, "z": 1})),
)
MESSAGES = st.lists(
    st.builds(
        lambda route, raw, body: Message(route, PropertyBlock(raw), body),
        st.sampled_from([b"\x00\x01q", b"\x03amq\x05key.1", b"\x03amq\x05key.2"]),
        st.sampled_from(RAW_BLOCKS),
        st.binary(max_size=40),
    ),
    min_size=1,
    max_size=30,
)


def parts_of(messages: list[Message]) -> list[tuple[bytes, bytes, bytes]]:
    return [(m.route_key, m.properties.raw, m.body) for m in messages]


@given(MESSAGES, st.integers(0, 2**63 - 1), st.integers(0, 2**45))
def test_both_kernels_write_the_same_bytes(
    messages: list[Message], offset: int, now_ms: int
) -> None:
    ours = b"".join(chunks.encode_chunk(messages, offset, now_ms))
    assert ours == b"".join(_chunk_py.encode_chunk(messages, offset, now_ms))


@given(MESSAGES, st.integers(0, 2**40))
def test_what_was_written_is_read_again(messages: list[Message], offset: int) -> None:
    data = b"before.." + b"".join(chunks.encode_chunk(messages, offset, 5)) + b"after"
    header = read_header(data, 8)
    assert (header.first_offset, header.records, header.timestamp_ms) == (offset, len(messages), 5)
    assert header.size == len(data) - 13
    assert is_sound(data, 8, header)
    for kernel in (chunks, _chunk_py):
        assert parts_of(kernel.decode_chunk(data, 8)) == parts_of(messages)


@given(MESSAGES, st.integers(0, 2**62))
def test_offsets_are_told_in_a_header_and_nothing_else_changes(
    messages: list[Message], offset: int
) -> None:
    for kernel in (chunks, _chunk_py):
        for number, (before, after) in enumerate(
            zip(messages, kernel.with_offsets(messages, offset), strict=True), offset
        ):
            old = decode_properties(before.properties.raw)
            new = decode_properties(after.properties.raw)
            headers = {} if old.headers is None else table_to_python(old.headers)
            assert new.headers is not None
            assert table_to_python(new.headers) == {**headers, "x-stream-offset": number}
            assert new.headers.get("x-stream-offset").kind == "l"  # type: ignore[union-attr]
            assert new.content_type == old.content_type
            assert new.delivery_mode == old.delivery_mode
            assert after.properties.persistent == before.properties.persistent
            assert (after.body, after.route_key) == (before.body, before.route_key)


def test_large_bodies_are_written_from_where_they_are() -> None:
    body = bytes(100_000)
    messages = [Message(b"\x00\x01q", PropertyBlock(b"\x00\x00"), body)]
    for kernel in (chunks, _chunk_py):
        pieces = kernel.encode_chunk(messages, 0, 0)
        assert any(piece is body for piece in pieces)
        assert is_sound(b"".join(pieces), 0, read_header(b"".join(pieces)))


def test_every_changed_bit_is_noticed() -> None:
    messages = [Message(b"\x00\x01q", PropertyBlock(b"\x00\x00"), b"body")]
    data = b"".join(chunks.encode_chunk(messages, 3, 4))
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        try:
            header = read_header(damaged)
        except MalformedChunk:
            assert position < HEADER_BYTES
        else:
            assert not is_sound(damaged, 0, header)


def test_bodies_and_their_array_are_where_the_format_says() -> None:
    """As a reader in another language would find them, with nothing but the description."""
    messages = [
        Message(b"\x00\x01q", PropertyBlock(b"\x00\x00"), body) for body in (b"one", b"", b"three")
    ]
    data = b"".join(chunks.encode_chunk(messages, 10, 20))
    records, routes, properties, routes_bytes, properties_bytes, bodies_bytes, size = (
        struct.unpack_from("<7I", data, 24)
    )
    assert (records, routes, properties, bodies_bytes, size) == (3, 1, 1, 8, len(data))
    assert struct.unpack_from("<4I", data, 64) == (0, 3, 3, 8)
    at = 64 + 16 + 8 + 8 + 8 + 8 + -(-routes_bytes // 8) * 8 + -(-properties_bytes // 8) * 8
    assert data[at : at + 8] == b"onethree"


def test_what_is_no_chunk_is_refused() -> None:
    with pytest.raises(MalformedChunk):
        read_header(b"x" * 100)
    with pytest.raises(MalformedChunk):
        read_header(b"")


def crafted(place: int, value: bytes) -> bytes:
    """A chunk of two messages with something else at a place, and right checksums."""
    messages = [Message(b"\x00\x01q", PropertyBlock(RAW_BLOCKS[n]), b"body") for n in range(2)]
    data = bytearray(b"".join(chunks.encode_chunk(messages, 0, 0)))
    data[place : place + len(value)] = value
    struct.pack_into("<I", data, CHECKSUMS_AT, crc32c(bytes(data[HEADER_BYTES:])))
    struct.pack_into("<I", data, SUMMED_BYTES, crc32c(bytes(data[:SUMMED_BYTES])))
    return bytes(data)


@pytest.mark.parametrize("kernel", [chunks, _chunk_py])
@pytest.mark.parametrize("part", [0, 3, 4], ids=["bodies", "routes", "properties"])
@pytest.mark.parametrize("end", [0xFFFF_FFF0, 1_000_000, 100])
def test_ends_that_do_not_fit_are_refused(kernel: ModuleType, part: int, end: int) -> None:
    """Whoever can write to the data directory must not make the broker read other memory."""
    place = read_header(crafted(0, b"")).parts()[part] + 4
    data = crafted(place, struct.pack("<I", end))
    assert is_sound(data, 0, read_header(data))
    with pytest.raises(MalformedChunk, match="do not fit"):
        kernel.decode_chunk(data, 0)


@pytest.mark.parametrize("kernel", [chunks, _chunk_py])
@pytest.mark.parametrize("part", [1, 2], ids=["routes", "properties"])
def test_numbers_that_do_not_fit_are_refused(kernel: ModuleType, part: int) -> None:
    place = read_header(crafted(0, b"")).parts()[part]
    with pytest.raises(MalformedChunk, match="do not fit"):
        kernel.decode_chunk(crafted(place, struct.pack("<H", 9_999)), 0)
