"""What journal and segment files are made of: one format of record for both.

Numbers are little-endian. Records begin at multiples of 8 bytes; what fills the gap is zero.

    every record        u32 checksum   CRC-32C of all that follows, begun with the store's salt
                        u32 length     of the whole record, without the filling
                        u8  kind       u8 flags      u16 length of the route key
                        u32 queue      by number, which QUEUE records give names to
                        u64 sequence
    PUBLISH             i64 expires at, in the broker's milliseconds, 0 never
                        u32 length of the properties      u32 length of the body
                          STORED:  i64 file, i64 offset in the message store
                          else:    route key, properties, body
    ACK                 u64 count of sequence numbers     u64 their body bytes together
                          STORED:  i64 file, i64 offset; count is 1
    ACK_RANGE           u64 end: everything from `sequence` to before this
    QUEUE               the queue's name
    DELETE
    FILE_START          u64 number of the last file before this one that has something, u64 where
                        that ends; `sequence` is this file's own, and so is the first number if
                        there was none before. Files between the two have nothing.

The salt is a random number kept in the header of every file. A search for the next good record
after a damaged one looks at every eighth byte, bodies included, and what clients put into those
must not be able to pass for a record.

A file begins with a header of its own: 8 bytes of magic, then as below. A journal file may end in
zeros (journal.py), which no record begins with: its kind is not zero.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from warren.storage.disk.checksum import crc32c

VERSION: Final = 1

PUBLISH: Final = 1
ACK: Final = 2
ACK_RANGE: Final = 3
QUEUE: Final = 4
DELETE: Final = 5
FILE_START: Final = 6

TRANSIENT: Final = 1
STORED: Final = 2

HEAD: Final = Struct("<IIBBHIQ")
PUBLISH_FIELDS: Final = Struct("<qII")
ACK_FIELDS: Final = Struct("<QQ")
LOCATION: Final = Struct("<qq")
NUMBER: Final = Struct("<Q")

STORE_FILE_MAX: Final = 0x7FFF_FFFF
"""Messages in memory have 31 bits for the number of their file."""
SEQUENCE_MAX: Final = (1 << 64) - 2
"""The number after a message's has to be a number, too."""
ALIGNMENT: Final = 8
RECORD_BYTES_MAX: Final = 1 << 28

JOURNAL_MAGIC: Final = b"WARRENJ\0"
SEGMENT_MAGIC: Final = b"WARRENS\0"

# Version, salt, queue (in a journal: one more than the number of a file before this one, or 0),
# number of the file, checksum of all before it.
_FILE_HEADER: Final = Struct("<8sIIIQ")
_CHECKSUM: Final = Struct("<I")
FILE_HEADER_BYTES: Final = _FILE_HEADER.size + _CHECKSUM.size


class DamagedHeader(Exception):
    """A file does not begin as it should."""


class NewerFormat(Exception):
    """Written by a later version of Warren."""

    def __init__(self, version: int, path: object = "") -> None:
        is_what = f"written in format {version}; this Warren knows formats up to {VERSION}"
        super().__init__(f"{path} is {is_what}" if path else is_what)
        self.version = version


def file_header(magic: bytes, salt: int, queue_id: int, number: int) -> bytes:
    fields = _FILE_HEADER.pack(magic, VERSION, salt, queue_id, number)
    return fields + _CHECKSUM.pack(crc32c(fields))


def parse_file_header(magic: bytes, data: bytes) -> tuple[int, int, int]:
    """Salt, queue and number; raises DamagedHeader or NewerFormat."""
    fields = data[: _FILE_HEADER.size]
    if len(data) < FILE_HEADER_BYTES or data[: len(magic)] != magic:
        raise DamagedHeader
    if crc32c(fields) != _CHECKSUM.unpack_from(data, _FILE_HEADER.size)[0]:
        raise DamagedHeader
    _, version, salt, queue_id, number = _FILE_HEADER.unpack(fields)
    if version > VERSION:
        raise NewerFormat(version)
    return salt, queue_id, number
