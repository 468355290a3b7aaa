"""Chunks read with nothing but the description of their format, as a stranger would."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes
    redelivered: bool


def records_of(data: bytes) -> Iterator[Record]:
    start = 0
    while start < len(data):
        magic, version, header_bytes, first, timestamp_ms = struct.unpack_from(
            "<4sHHQq", data, start
        )
        assert (magic, version, header_bytes) == (b"WRNc", 1, 64)
        count, routes, blocks, routes_bytes, blocks_bytes, _, size, flags = struct.unpack_from(
            "<8I", data, start + 24
        )
        at = start + 64
        ends, at = _array("I", data, at, count + 1)
        route_of, at = _array("H", data, at, count)
        block_of, at = _array("H", data, at, count)
        route_ends, at = _array("I", data, at, routes + 1)
        block_ends, at = _array("I", data, at, blocks + 1)
        routes_at, at = at, at + _padded(routes_bytes)
        blocks_at, at = at, at + _padded(blocks_bytes)
        for n in range(count):
            route = data[routes_at + route_ends[route_of[n]] :]
            block = block_of[n]
            exchange, key = _text(route), _text(route[1 + route[0] :])
            yield Record(
                first + n, timestamp_ms, exchange, key,
                data[blocks_at + block_ends[block] : blocks_at + block_ends[block + 1]],
                data[at + ends[n] : at + ends[n + 1]],
                bool(flags & 1),
            )  # fmt: skip
        start += size
    assert start == len(data), "chunks come whole"


def _array(kind: str, data: bytes, at: int, count: int) -> tuple[tuple[int, ...], int]:
    form = f"<{count}{kind}"
    return struct.unpack_from(form, data, at), at + _padded(struct.calcsize(form))


def _padded(size: int) -> int:
    return (size + 7) // 8 * 8


def _text(data: bytes) -> str:
    return data[1 : 1 + data[0]].decode()
