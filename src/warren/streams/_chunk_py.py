"""Chunks in plain Python: what `_chunk.pyx` does, and the place to read what it means."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct
from sys import byteorder
from typing import Final

from warren.storage.disk.checksum import crc32c
from warren.storage.disk.files import Buffer
from warren.streams.chunk_format import (
    CHUNK_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SUMMED_BYTES,
    VERSION,
    MalformedChunk,
    padded,
    read_header,
)
from warren.streams.offset_header import with_offset_slowly
from warren.wire.codec import Message, PropertyBlock

# Bodies of so many bytes on average are written from where they are.
BODY_BY_REFERENCE_MIN: Final = 16_384

_CHECKSUM: Final = Struct("<I")


def encode_chunk(messages: list[Message], first_offset: int, timestamp_ms: int) -> list[bytes]:
    """The pieces of a chunk, to be written one after another."""
    bodies = [message.body for message in messages]
    routes: dict[bytes, int] = {}
    properties: dict[bytes, int] = {}
    route_numbers = [routes.setdefault(m.route_key, len(routes)) for m in messages]
    property_numbers = [properties.setdefault(m.properties.raw, len(properties)) for m in messages]
    ends = _ends(bodies)
    if ends[-1] > CHUNK_BYTES_MAX:
        raise OverflowError("a chunk this long cannot have come from anywhere")
    parts = [
        _packed("I", ends),
        _packed("H", route_numbers),
        _packed("H", property_numbers),
        _packed("I", _ends(routes)),
        _packed("I", _ends(properties)),
        _aligned(b"".join(routes)),
        _aligned(b"".join(properties)),
    ]
    lead = b"".join(parts)
    tail = bytes(padded(ends[-1]) - ends[-1])
    checksum = crc32c(lead)
    for body in (*bodies, tail):
        checksum = crc32c(body, checksum)
    header = HEADER.pack(
        MAGIC, VERSION, HEADER_BYTES, first_offset, timestamp_ms, len(messages), len(routes),
        len(properties), sum(map(len, routes)), sum(map(len, properties)), ends[-1],
        HEADER_BYTES + len(lead) + padded(ends[-1]), 0, checksum, 0,
    )[:SUMMED_BYTES]  # fmt: skip
    header += _CHECKSUM.pack(crc32c(header))
    if ends[-1] >= BODY_BY_REFERENCE_MIN * len(messages):
        return [header + lead, *bodies, *([tail] if tail else [])]
    return [b"".join((header, lead, *bodies, tail))]


def decode_chunk(data: Buffer, position: int) -> list[Message]:
    """The messages of a chunk that is known to be sound. Raises MalformedChunk."""
    header = read_header(data, position)
    if len(data) - position < header.size:
        raise MalformedChunk("not all of it")
    view = memoryview(data)
    places = [position + place for place in header.parts()]
    ends = _unpacked("I", view, places[0], header.records + 1)
    route_numbers = _unpacked("H", view, places[1], header.records)
    property_numbers = _unpacked("H", view, places[2], header.records)
    route_ends = _unpacked("I", view, places[3], header.routes + 1)
    property_ends = _unpacked("I", view, places[4], header.properties + 1)
    routes = _texts(view, places[5], route_ends, header.routes_bytes)
    raw_blocks = _texts(view, places[6], property_ends, header.properties_bytes)
    blocks = [PropertyBlock(raw) for raw in raw_blocks]
    bodies = _texts(view, places[7], ends, header.bodies_bytes)
    if max(route_numbers) >= len(routes) or max(property_numbers) >= len(blocks):
        raise MalformedChunk("numbers that do not fit")
    numbers = zip(route_numbers, property_numbers, bodies, strict=True)
    return [Message(routes[route], blocks[block], body) for route, block, body in numbers]


def _texts(view: memoryview, place: int, ends: Sequence[int], size: int) -> list[bytes]:
    """Cut the texts of a part; a chunk may be crafted, so its ends are not believed."""
    if any(start > end or end > size for start, end in pairwise(ends)):
        raise MalformedChunk("ends that do not fit")
    return [bytes(view[place + start : place + end]) for start, end in pairwise(ends)]


def with_offsets(messages: list[Message], first_offset: int) -> list[Message]:
    """The same, each with the header that tells its consumer where it stands."""
    return [
        Message(
            message.route_key,
            PropertyBlock(with_offset_slowly(message.properties.raw, offset)),
            message.body,
        )
        for offset, message in enumerate(messages, first_offset)
    ]


def _ends(texts: Sequence[bytes] | dict[bytes, int]) -> list[int]:
    return list(accumulate(map(len, texts), initial=0))


def _packed(kind: str, numbers: list[int]) -> bytes:
    packed = array(kind, numbers)
    if byteorder == "big":
        packed.byteswap()
    return _aligned(packed.tobytes())


def _unpacked(kind: str, view: memoryview, position: int, count: int) -> array[int]:
    numbers = array(kind)
    numbers.frombytes(view[position : position + count * numbers.itemsize])
    if byteorder == "big":
        numbers.byteswap()
    return numbers


def _aligned(data: bytes) -> bytes:
    return data + bytes(padded(len(data)) - len(data))
