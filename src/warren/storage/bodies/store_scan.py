"""Walking a file of the store by its record headers. Everything here blocks.

Where no header is, the walk looks for the next one: behind a byte that may be a trailer, with a
checksum that agrees and a record that ends in a trailer. What lies between is damaged, and told as
a gap. So one bad sector costs the records it hit, not the rest of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.storage.bodies.record_format import (
    RECORD_HEADER_BYTES,
    TRAILER,
    RecordHeader,
    parse_header,
)
from warren.storage.disk.checksum import crc32c
from warren.storage.disk.files import Disk

SEARCH_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no records."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Walk:
    disk: Disk
    descriptor: int
    salt: int
    end: int
    verified: int = -1
    """The file of this number reads its own records in full; a wrong checksum makes a gap."""

    def records(self, start: int) -> Iterator[tuple[int, RecordHeader] | Gap]:
        position = start
        while position < self.end:
            header = self._header(position)
            if header is None:
                found = self._search(position + 1)
                yield Gap(position, found)
                position = found
                continue
            following = position + header.record_bytes
            is_own = (self.verified, position) == (header.home_file, header.home_offset)
            if is_own and self.record(position, header) is None:
                yield Gap(position, following)
            else:
                yield position, header
            position = following

    def _header(self, position: int) -> RecordHeader | None:
        data = self.disk.read(self.descriptor, position, RECORD_HEADER_BYTES)
        header = parse_header(data, self.salt)
        if header is None or position + header.record_bytes > self.end:
            return None
        return header

    def record(self, position: int, header: RecordHeader) -> bytes | None:
        """All of it, if the checksum agrees."""
        data = self.disk.read(self.descriptor, position, header.record_bytes)
        payload = memoryview(data)[RECORD_HEADER_BYTES : -len(TRAILER)]
        if len(data) < header.record_bytes or not data.endswith(TRAILER):
            return None
        return data if crc32c(payload) == header.payload_checksum else None

    def _search(self, position: int) -> int:
        """Where the next record begins, not before `position`; the end if there is none."""
        while position < self.end:
            block = self.disk.read(
                self.descriptor, position - 1, min(SEARCH_BYTES, self.end - position + 1)
            )
            trailer = block.find(TRAILER)
            while trailer >= 0:
                candidate = position + trailer
                if candidate < self.end and self._is_record(block, trailer + 1, candidate):
                    return candidate
                trailer = block.find(TRAILER, trailer + 1)
            if not block:
                break
            position += len(block)
        return self.end

    def _is_record(self, block: bytes, index: int, position: int) -> bool:
        if len(block) - index < RECORD_HEADER_BYTES:
            header = self._header(position)
        else:
            header = parse_header(block, self.salt, index)
        if header is None or position + header.record_bytes > self.end:
            return False
        last = position + header.record_bytes - len(TRAILER)
        return self.disk.read(self.descriptor, last, len(TRAILER)) == TRAILER
