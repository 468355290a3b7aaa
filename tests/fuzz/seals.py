"""Seals: right checksums for bytes that a fuzzer made up, so that readers look behind them."""

from __future__ import annotations

from struct import Struct, pack_into
from typing import Final

from warren.storage.bodies.record_format import RECORD_HEADER, TRAILER, file_header
from warren.storage.bodies.record_format import SUMMED_BYTES as RECORD_SUMMED_BYTES
from warren.storage.disk.checksum import crc32c
from warren.storage.index.checkpoint import MAGIC as CHECKPOINT_MAGIC
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
_LENGTH_AND_KIND: Final = Struct("<HH")
_CONTENT_BYTES_MAX: Final = 512
_CHECKPOINT_HEADER_BYTES: Final = 48
_CHECKPOINT_COUNTS_AT: Final = 40
_STATE_BYTES_MAX: Final = 256
_ENTRY_BYTES: Final = 28
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
        content = data[at : at + length % _CONTENT_BYTES_MAX] or data[at : at + ALIGNMENT]
        at += len(content)
        record = bytearray(content.rjust(HEAD.size, bytes([PUBLISH])))
        if length:
            pack_into("<I", record, 4, len(record))
            pack_into("<I", record, 0, crc32c(bytes(record[4:]), salt))
        sealed += record.ljust(-(-len(record) // ALIGNMENT) * ALIGNMENT, b"\0")
    return bytes(sealed)


def seal_sums(data: bytes) -> bytes:
    """Put the checksum of the input behind it."""
    return data + crc32c(data).to_bytes(4, "little")


def seal_checkpoint(data: bytes) -> bytes:
    """Make a checkpoint of this version with few queues; its checksum is right."""
    sealed = bytearray(data.ljust(_CHECKPOINT_HEADER_BYTES, b"\0"))
    pack_into("<8sI", sealed, 0, CHECKPOINT_MAGIC, 1)
    for at in (_CHECKPOINT_COUNTS_AT, _CHECKPOINT_COUNTS_AT + 4):
        pack_into(
            "<I", sealed, at, int.from_bytes(sealed[at : at + 4], "little") % _STATE_BYTES_MAX
        )
    return seal_sums(bytes(sealed))


def seal_store_file(data: bytes, salt: int, number: int) -> bytes:
    """Make a file of the message store: a length and a kind, and so many bytes, again and again.

    Of kind 0 are bytes that no record is made of: damage.
    """
    sealed, at = bytearray(file_header(number, salt)), 0
    while at + _LENGTH_AND_KIND.size <= len(data):
        length, kind = _LENGTH_AND_KIND.unpack_from(data, at)
        at += _LENGTH_AND_KIND.size
        content = data[at : at + length % _CONTENT_BYTES_MAX]
        at += len(content)
        if not kind:
            sealed += content
            continue
        checksum = crc32c(content) if kind % 5 else kind
        home = len(sealed) if kind % 3 else kind
        fields = (len(content), checksum, kind % 4, number, home, kind % 7, 0, kind % 11, 0)
        header = RECORD_HEADER.pack(*fields)[:RECORD_SUMMED_BYTES]
        sealed += header + crc32c(header, salt).to_bytes(4, "little")
        sealed += content + (TRAILER if kind % 13 else b"")
    return bytes(sealed)


def seal_stream(data: bytes, base: int) -> tuple[bytes, bytes]:
    """Make chunks that follow each other, and an index of them, of the halves of the input."""
    half = len(data) // 2
    chunks, offset = bytearray(), base
    for at in range(0, half, HEADER_BYTES):
        chunk = bytearray(seal_chunk(data[at : at + HEADER_BYTES]))
        if data[at] % 8:  # else it begins somewhere else
            pack_into("<Q", chunk, 8, offset)
            pack_into("<I", chunk, SUMMED_BYTES, crc32c(bytes(chunk[:SUMMED_BYTES])))
        offset += int.from_bytes(chunk[_FIELDS_AT : _FIELDS_AT + 4], "little")
        chunks += chunk
    index = b"".join(
        seal_sums(data[at : at + _ENTRY_BYTES])
        for at in range(half, len(data) - _ENTRY_BYTES + 1, _ENTRY_BYTES)
    )
    return bytes(chunks), index
