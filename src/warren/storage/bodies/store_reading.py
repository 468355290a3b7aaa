"""Reading messages back. Everything here blocks, and belongs in a thread.

A file is opened for a set of reads and closed after it: a window of messages costs one opening, and
nothing is held that a deletion would have to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from warren.storage.bodies.file_table import FileTable
from warren.storage.bodies.forwarding import Place
from warren.storage.bodies.record_format import (
    RECORD_HEADER_BYTES,
    TRAILER,
    CorruptRecord,
    RecordHeader,
    parse_header,
    parse_payload,
)
from warren.storage.bodies.store_files import StoreDirectory, StoreFile
from warren.storage.bodies.write_buffer import WriteBuffer
from warren.storage.disk.files import Disk
from warren.wire.codec import Message

Location: TypeAlias = tuple[int, int, int]
"""File, offset and size of the body, as a QueuedMessage has them."""

LEAD_BYTES: Final = 1_024
"""Read with the header: route keys and property blocks are rarely longer."""
COPIED_BYTES_MAX: Final = 16_384
"""A body of this size or more is read by itself, straight into its place."""


@dataclass(frozen=True, slots=True)
class Wanted:
    home: Place
    offset: int
    size: int
    """What the body is expected to have; only a hint."""


def read_messages(
    directory: StoreDirectory, file: StoreFile, wanted: Sequence[Wanted]
) -> list[Message | CorruptRecord]:
    """The messages of one file, in the order they were asked for. Raises OSError."""
    disk = directory.disk
    path = directory.file(file.number)
    try:
        descriptor = disk.open(path)
    except FileNotFoundError:
        return [CorruptRecord(*one.home, "its file is gone") for one in wanted]
    try:
        return [_message(disk, descriptor, file.salt, one) for one in wanted]
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        disk.close(descriptor)


def _message(disk: Disk, descriptor: int, salt: int, wanted: Wanted) -> Message | CorruptRecord:
    is_large = wanted.size >= COPIED_BYTES_MAX
    start = RECORD_HEADER_BYTES + LEAD_BYTES + (0 if is_large else wanted.size + len(TRAILER))
    data = disk.read(descriptor, wanted.offset, start)
    header = parse_header(data, salt)
    if header is None:
        return CorruptRecord(*wanted.home, "no record begins there")
    if (header.home_file, header.home_offset) != wanted.home:
        return CorruptRecord(*wanted.home, "another message is in its place")
    message = parse_payload(header, *_payload(disk, descriptor, wanted.offset, header, data))
    return message or CorruptRecord(*wanted.home, "wrong checksum")


def _payload(
    disk: Disk, descriptor: int, offset: int, header: RecordHeader, data: bytes
) -> tuple[bytes, bytes]:
    """Route key with property block, and body; from `data` as far as they are in it."""
    body_start = RECORD_HEADER_BYTES + header.payload_bytes - header.body_bytes
    body_end = RECORD_HEADER_BYTES + header.payload_bytes
    if len(data) < body_start:
        data = disk.read(descriptor, offset, body_start)
    lead = data[RECORD_HEADER_BYTES:body_start]
    if len(data) >= body_end:
        return lead, data[body_start:body_end]
    return lead, disk.read(descriptor, offset + body_start, header.body_bytes)


class ReadWindow:
    """A set of reads: what is in memory is found at once, the rest by `read` in a thread."""

    def __init__(
        self, table: FileTable, buffer: WriteBuffer, locations: Sequence[Location]
    ) -> None:
        self.found: list[Message | CorruptRecord] = []
        self.groups: dict[StoreFile, list[tuple[int, Wanted]]] = {}
        for file, offset, size in locations:
            message = buffer.cached(file, offset)
            place = None if message is not None else table.resolve(file, offset)
            self.found.append(message or CorruptRecord(file, offset, "its file is gone"))
            if place is not None:
                wanted = Wanted((file, offset), place[1], size)
                group = self.groups.setdefault(table.files[place[0]], [])
                group.append((len(self.found) - 1, wanted))
        for store_file in self.groups:
            store_file.users += 1

    def read(self, directory: StoreDirectory) -> list[Message | CorruptRecord]:
        """All that was found; may be called again if it raises OSError."""
        for file, group in self.groups.items():
            messages = read_messages(directory, file, [wanted for _, wanted in group])
            for (index, _), message in zip(group, messages, strict=True):
                self.found[index] = message
        return self.found

    def release(self) -> None:
        for file in self.groups:
            file.users -= 1
