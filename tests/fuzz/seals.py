"""Seals: right checksums for bytes that a fuzzer made up, so that readers look behind them."""

from __future__ import annotations

from struct import Struct, pack_into
from typing import Final

from warren.storage.disk.checksum import crc32c
from warren.storage.index.index_format import ALIGNMENT, HEAD, PUBLISH
from warren.streams.chunk_format import (
    CHECKSUMS_AT,
    HEADER_BYTES,
    MAGIC,
    SUMMED_BYTES,
    VERSION,
    padded,
)

_LENGTH: Final = Struct("<H")
_FIELDS: Final = Struct("<IIIIIII")
_FIELDS_AT: Final = 24
_SMALL: Final = 64


def seal_chunk(data: bytes) -> bytes:
    """Make a chunk with these fields and parts; its size and its checksums are right."""
    sealed = bytearray(data.ljust(HEADER_BYTES, b"\0"))
    pack_into("<IHH", sealed, 0, MAGIC, VERSION, HEADER_BYTES)
    counts = [value % _SMALL for value in _FIELDS.unpack_from(sealed, _FIELDS_AT)[:-1]]
    records, routes, properties, *sizes = counts
    arrays = (4 * (records + 1), 2 * records, 2 * records, 4 * (routes + 1), 4 * (properties + 1))
    parts = sum(padded(size) for size in (*arrays, *sizes[:2]))
    size = padded(HEADER_BYTES + parts + sizes[2])
    sealed = sealed[:size].ljust(size, b"\0")
    pack_into("<IIIIIII", sealed, _FIELDS_AT, *counts, size)
    pack_into("<I", sealed, CHECKSUMS_AT, crc32c(bytes(sealed[HEADER_BYTES:])))
    pack_into("<I", sealed, SUMMED_BYTES, crc32c(bytes(sealed[:SUMMED_BYTES])))
    return bytes(sealed)


def seal_records(data: bytes, salt: int) -> bytes:
    """Make records of the input: a length, and so many bytes behind the checksum, again and again.

    A length of 0 leaves the next bytes as they are, which is damage in the midst of records.
    """
    sealed, at = bytearray(), 0
    while at + _LENGTH.size < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        content = data[at : at + length % 512] or data[at : at + ALIGNMENT]
        at += len(content)
        record = bytearray(content.rjust(HEAD.size, bytes([PUBLISH])))
        if length:
            pack_into("<I", record, 4, len(record))
            pack_into("<I", record, 0, crc32c(bytes(record[4:]), salt))
        sealed += record.ljust(-(-len(record) // ALIGNMENT) * ALIGNMENT, b"\0")
    return bytes(sealed)
