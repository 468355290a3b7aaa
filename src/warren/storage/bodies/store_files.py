"""The files of a message store, and what is known of each without looking into it.

Deaths are counted, not lives. A file knows how many references its records were written with and
keeps the offset of each reference that has ended, once per reference; when there are as many of
these as of those, nothing in it is needed any more. So a deep backlog costs no memory at all, and
what is half dead costs four bytes per death until compaction comes for it.

Which records are dead in full is not known: that would take a table of all records. The share of
garbage is estimated by weighing each reference with the size of its body, which is exact for
messages of one queue. Compaction looks at the headers before it believes it.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.storage.bodies.record_format import FILE_HEADER_BYTES, file_header
from warren.storage.disk.files import Disk, append_all
from warren.storage.disk.layout import numbered
from warren.storage.index.states import TRANSIENT_FILE_MIN

FILE_BYTES: Final = 16 * 1_048_576
"""A file that has reached this size is followed by the next (`msg_store_file_size_limit`)."""

REFERENCE_WEIGHT: Final = 64
"""What a reference weighs beside its body, so that empty bodies are not weightless."""

SUFFIX: Final = ".rdq"


class StoreFile:
    def __init__(self, number: int, descriptor: int = -1, salt: int = 0) -> None:
        self.number = number
        self.salt = salt
        self.descriptor = descriptor  # -1: not open for appending
        self.size = FILE_HEADER_BYTES
        self.references = 0
        self.weight = 0
        self.dead_weight = 0
        self.deaths = array("I")
        self.is_sealed = False  # nothing is appended any more
        self.is_being_written = False  # by the batch in flight: what is in it is not all there yet
        self.users = 0  # reads, batches and compactions that need the file to exist
        self.is_suspect = False  # seems to be half garbage
        self.is_unreadable = False
        self.patience = 0  # deaths before compaction need look again

    def bury(self, offset: int, size: int) -> None:
        """One reference to the record at `offset`, with a body of `size` bytes, has ended."""
        assert len(self.deaths) < self.references, "more references ended than there were"
        self.deaths.append(offset)
        self.dead_weight += size + REFERENCE_WEIGHT

    def add(self, references: int, body_bytes: int) -> None:
        self.references += references
        self.weight += references * (body_bytes + REFERENCE_WEIGHT)

    @property
    def is_dead(self) -> bool:
        return len(self.deaths) == self.references

    @property
    def live_bytes(self) -> int:
        """An estimate; see above."""
        if not self.weight:
            return 0
        return self.size * (self.weight - self.dead_weight) // self.weight


class StoreDirectory:
    """Names and creation of files; every method blocks."""

    def __init__(self, path: Path, disk: Disk, is_transient: bool, salt: int) -> None:
        self.path: Final = path
        self.disk: Final = disk
        self.is_transient: Final = is_transient
        self.salt: Final = salt
        self.first_number: Final = TRANSIENT_FILE_MIN if is_transient else 0

    def make(self) -> None:
        self.disk.make_directory(self.path)
        if not self.is_transient:
            self.disk.sync_directory(self.path.parent)

    def file(self, number: int) -> Path:
        return self.path / f"{number - self.first_number}{SUFFIX}"

    def numbers(self) -> list[int]:
        return [n + self.first_number for n in numbered(self.disk.list(self.path), SUFFIX)]

    def create(self, number: int) -> StoreFile:
        """An empty file whose name survives a power cut before anything refers to it."""
        descriptor = self.disk.open(self.file(number), create=True)
        try:
            append_all(self.disk, descriptor, [file_header(number, self.salt)])
            if not self.is_transient:
                self.disk.sync(descriptor)
                self.disk.sync_directory(self.path)
        except OSError:
            self.disk.close(descriptor)
            with suppress(OSError):
                self.disk.unlink(self.file(number))
            raise
        return StoreFile(number, descriptor, self.salt)

    def close(self, file: StoreFile) -> None:
        if file.descriptor >= 0:
            descriptor, file.descriptor = file.descriptor, -1
            self.disk.close(descriptor)

    def remove(self, file: StoreFile) -> None:
        """Its name may come back after a power cut; recovery then removes it again."""
        self.close(file)
        self.disk.unlink(self.file(file.number))

    def cut(self, number: int, size: int) -> None:
        descriptor = self.disk.open(self.file(number))
        try:
            self.disk.truncate(descriptor, size)
            self.disk.sync(descriptor)
        finally:
            self.disk.close(descriptor)
