"""A chunk: what a stream's file is made of, laid out so that a reader takes it in whole.

A segment file is nothing but chunks, one after another, so any run of them, cut from one file or
put together from several, is itself something to read. Numbers are little-endian; every part
begins at a multiple of 8 bytes from the chunk's beginning, with zeros between.

    header, 64 bytes
       0  u32  magic "WRNc"
       4  u16  version, 1           6  u16  bytes of this header
       8  u64  offset of the first record; the others follow without a gap
      16  i64  when they were taken, in milliseconds since 1970
      24  u32  records
      28  u32  distinct routes     32  u32  distinct property blocks
      36  u32  bytes of routes     40  u32  bytes of property blocks
      44  u32  bytes of bodies     48  u32  bytes of the whole chunk
      52  u32  flags (flags.py)
      56  u32  CRC-32C of all behind the header
      60  u32  CRC-32C of the 60 bytes before
    u32[records + 1]      where each body begins and the last one ends, from the first one on
    u16[records]          which route each has
    u16[records]          which property block
    u32[routes + 1]       where each route begins and the last one ends
    u32[properties + 1]   the same of property blocks
    the routes            exchange and routing key, each a length byte and text
    the property blocks   as in AMQP's content header: flags and values
    the bodies

Why like that. Whoever reads a million records in Python must not do anything a million times. The
bodies of a chunk and the array in front are exactly what Arrow calls a binary array, and make one
without a copy. Publishers repeat themselves, so what describes a message is kept once, with a small
number for each record: to decode it costs a step per distinct one. RabbitMQ's chunks have entries
of length and data, which only a loop can walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from warren.storage.disk.checksum import crc32c
from warren.storage.disk.files import Buffer

HEADER: Final = Struct("<IHHQqIIIIIIIIII")
HEADER_BYTES: Final = 64
SUMMED_BYTES: Final = 60
CHECKSUMS_AT: Final = 56
MAGIC: Final = 0x634E5257  # "WRNc"
VERSION: Final = 1
ALIGNMENT: Final = 8
# Numbers of routes and property blocks have 16 bits.
CHUNK_RECORDS_MAX: Final = 16_384
# No more is gathered once there is so much; one record alone may be larger.
CHUNK_BYTES: Final = 1_048_576
# So large may the largest be: arrays of Arrow end at 2 GiB.
CHUNK_BYTES_MAX: Final = 0x7FFF_FFFF

assert HEADER.size == HEADER_BYTES


class MalformedChunk(ValueError):
    """What should be a chunk is none, or not all of one."""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    first_offset: int
    timestamp_ms: int
    records: int
    routes: int
    properties: int
    routes_bytes: int
    properties_bytes: int
    bodies_bytes: int
    size: int
    checksum: int

    @property
    def end_offset(self) -> int:
        return self.first_offset + self.records

    def parts(self) -> tuple[int, ...]:
        """Where the seven parts behind the header begin, and where the last one ends."""
        sizes = (
            4 * (self.records + 1),
            2 * self.records,
            2 * self.records,
            4 * (self.routes + 1),
            4 * (self.properties + 1),
            self.routes_bytes,
            self.properties_bytes,
        )
        position, places = HEADER_BYTES, []
        for size in sizes:
            places.append(position)
            position += padded(size)
        return (*places, position, position + self.bodies_bytes)


def padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def read_header(data: Buffer, position: int = 0) -> ChunkHeader:
    """Raises MalformedChunk unless a whole, sound header is there."""
    if len(data) - position < HEADER_BYTES:
        raise MalformedChunk("no whole header")
    fields = HEADER.unpack_from(data, position)
    summed = memoryview(data)[position : position + SUMMED_BYTES]
    if fields[0] != MAGIC or fields[-1] != crc32c(summed):
        raise MalformedChunk("no header")
    if fields[1] != VERSION:
        raise MalformedChunk(f"version {fields[1]}")
    header = ChunkHeader(*fields[3:12], *fields[13:14])
    if header.size != padded(header.parts()[-1]) or not header.records:
        raise MalformedChunk("sizes that do not fit")
    return header


def is_sound(data: Buffer, position: int, header: ChunkHeader) -> bool:
    """Whether all of the chunk is there, as it was written."""
    rest = memoryview(data)[position + HEADER_BYTES : position + header.size]
    return len(rest) == header.size - HEADER_BYTES and crc32c(rest) == header.checksum
