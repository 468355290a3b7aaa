"""A message in an `N.rdq` file.

A file begins with a header, of which the last four bytes are the CRC-32C of the rest:

    magic "WRDQ", version u32, number of the file u32, salt u32, checksum u32

Records follow each other without gaps. All numbers are little-endian.

    payload length    u32   route key, property block and body, one after another
    payload checksum  u32   CRC-32C
    references        u32   how many queues it was routed to
    home file         u32   \\ the location that queues know it by, which is where it
    home offset       u32   /  was first written
    route key length  u16
    zero              u16
    properties length u32
    header checksum   u32   CRC-32C of the 28 bytes before, begun with the file's salt
    payload
    trailer           u8    255

The header has a checksum of its own because files are walked by their headers alone: after a
crash, and when garbage is collected, bodies are not worth reading. The salt is a number that no
client knows: whoever looks for the next record behind a damaged one looks into bodies as well, and
what clients put there must not pass for a header.

Compaction copies records as they are. A record whose home is not where it stands is a copy, and
says so itself: see compaction.py for what that is good for.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from warren.storage.disk.checksum import crc32c
from warren.wire.codec import Message, PropertyBlock

FILE_MAGIC: Final = b"WRDQ"
FILE_VERSION: Final = 1
FILE_HEADER: Final = Struct("<4sIIII")
FILE_HEADER_BYTES: Final = FILE_HEADER.size

RECORD_HEADER: Final = Struct("<IIIIIHHII")
RECORD_HEADER_BYTES: Final = RECORD_HEADER.size
SUMMED_BYTES: Final = RECORD_HEADER_BYTES - 4
TRAILER: Final = b"\xff"
RECORD_OVERHEAD_BYTES: Final = RECORD_HEADER_BYTES + len(TRAILER)

OFFSET_MAX: Final = 0xFFFF_FFFF


class NewerStoreFormat(Exception):
    """A file was written by a later version of the broker; nothing was touched."""


class CorruptRecord(Exception):
    """What should be a message is none; it is skipped, counted and reported."""

    def __init__(self, file: int, offset: int, reason: str) -> None:
        super().__init__(f"{file}.rdq, offset {offset}: {reason}")
        self.file: Final = file
        self.offset: Final = offset


class RecordHeader(NamedTuple):
    payload_bytes: int
    payload_checksum: int
    references: int
    home_file: int
    home_offset: int
    route_key_bytes: int
    properties_bytes: int

    @property
    def record_bytes(self) -> int:
        return RECORD_OVERHEAD_BYTES + self.payload_bytes

    @property
    def body_bytes(self) -> int:
        return self.payload_bytes - self.route_key_bytes - self.properties_bytes


def file_header(number: int, salt: int) -> bytes:
    summed = FILE_HEADER.pack(FILE_MAGIC, FILE_VERSION, number, salt, 0)[:-4]
    return summed + crc32c(summed).to_bytes(4, "little")


def parse_file_header(data: bytes, number: int) -> int | None:
    """The salt, or None if the file is not what its name says; raises NewerStoreFormat."""
    if len(data) < FILE_HEADER_BYTES:
        return None
    magic, version, found, salt, checksum = FILE_HEADER.unpack_from(data)
    if magic != FILE_MAGIC or checksum != crc32c(data[: FILE_HEADER_BYTES - 4]):
        return None
    if version != FILE_VERSION:
        raise NewerStoreFormat(
            f"written in format {version}; this Warren knows format {FILE_VERSION}"
        )
    return int(salt) if found == number else None


def parse_header(data: bytes, salt: int, offset: int = 0) -> RecordHeader | None:
    """The header at `offset`, or None if there is none."""
    if len(data) - offset < RECORD_HEADER_BYTES:
        return None
    fields = RECORD_HEADER.unpack_from(data, offset)
    if fields[8] != crc32c(data[offset : offset + SUMMED_BYTES], salt):
        return None
    header = RecordHeader._make((*fields[:6], fields[7]))
    return header if header.references and header.body_bytes >= 0 else None


def parse_payload(header: RecordHeader, lead: bytes, body: bytes) -> Message | None:
    """The message, if the checksum agrees; `lead` is the route key and the property block."""
    if crc32c(body, crc32c(lead)) != header.payload_checksum:
        return None
    key_bytes = header.route_key_bytes
    return Message(lead[:key_bytes], PropertyBlock(lead[key_bytes:]), body)


def resalted_header(record: bytes, salt: int) -> bytes:
    """The header of a record, as it must be in a file with this salt."""
    summed = record[:SUMMED_BYTES]
    return summed + crc32c(summed, salt).to_bytes(4, "little")
