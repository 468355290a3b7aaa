"""Chunks on their way into a log: encoded, with offsets, and not seen by readers yet."""

from __future__ import annotations

from warren.storage.disk.files import Buffer
from warren.streams.chunk_format import (
    CHECKSUMS_AT,
    CHUNK_BYTES,
    CHUNK_RECORDS_MAX,
    HEADER_BYTES,
    ChunkHeader,
)
from warren.streams.chunks import decode_chunk, encode_chunk
from warren.streams.segments import IndexEntry
from warren.wire.codec import Message


class PendingChunk:
    """`base` and `entry` say where it is being written, and mean nothing before `place`."""

    __slots__ = (
        "_messages", "base", "end", "entry", "first_offset", "pieces", "records", "size",
        "timestamp_ms",
    )  # fmt: skip

    entry: IndexEntry

    def __init__(
        self,
        pieces: list[bytes],
        first_offset: int,
        timestamp_ms: int,
        records: int,
        messages: list[Message] | None = None,
    ) -> None:
        self.pieces = pieces
        self.first_offset = first_offset
        self.timestamp_ms = timestamp_ms
        self.records = records
        self.end = first_offset + records
        self.size = sum(map(len, pieces))
        self.base = 0
        self._messages = messages

    def place(self, base: int, position: int) -> None:
        self.base = base
        self.entry = IndexEntry(self.first_offset, self.timestamp_ms, position, self.records)

    @property
    def fingerprint(self) -> int:
        return fingerprint_of(self.pieces[0])

    def messages(self) -> list[Message]:
        if self._messages is None:
            self._messages = decode_chunk(b"".join(self.pieces), 0)
        return self._messages


def fingerprint_of(header: Buffer) -> int:
    """Of a chunk, by its first bytes: both its checksums, so that no two chunks share one."""
    return int.from_bytes(header[CHECKSUMS_AT:HEADER_BYTES], "little")


def encoded_chunks(
    messages: list[Message], size: int, first_offset: int, timestamp_ms: int
) -> list[PendingChunk]:
    """`size` is no less than all bodies have together; mostly they fit into one chunk."""
    is_one = size < CHUNK_BYTES and len(messages) <= CHUNK_RECORDS_MAX
    chunks = []
    for part in (messages,) if is_one else _parts(messages):
        pieces = encode_chunk(part, first_offset, timestamp_ms)
        chunks.append(PendingChunk(pieces, first_offset, timestamp_ms, len(part), part))
        first_offset += len(part)
    return chunks


def received_chunk(data: bytes, header: ChunkHeader) -> PendingChunk:
    """As another node has encoded it."""
    return PendingChunk([data], header.first_offset, header.timestamp_ms, header.records)


def _parts(messages: list[Message]) -> list[list[Message]]:
    parts: list[list[Message]] = []
    start = size = 0
    for position, message in enumerate(messages):
        size += len(message.body)
        if size >= CHUNK_BYTES or position + 1 - start >= CHUNK_RECORDS_MAX:
            parts.append(messages[start : position + 1])
            start, size = position + 1, 0
    if start < len(messages):
        parts.append(messages[start:])
    return parts
