"""The beginning of a record in plain Python: what `_record_head.pyx` makes."""

from __future__ import annotations

from warren.storage.bodies.record_format import RECORD_HEADER, SUMMED_BYTES
from warren.storage.disk.checksum import crc32c
from warren.wire.codec import Message


def encode_head(message: Message, references: int, file: int, offset: int, salt: int) -> bytes:
    """A record of `message` at this location, up to its body."""
    lead = message.route_key + message.properties.raw
    header = RECORD_HEADER.pack(
        len(lead) + len(message.body),
        crc32c(message.body, crc32c(lead)),
        references,
        file,
        offset,
        len(message.route_key),
        0,
        len(message.properties.raw),
        0,
    )[:SUMMED_BYTES]
    return b"".join((header, crc32c(header, salt).to_bytes(4, "little"), lead))
