"""The journal: the one log that all queues of a virtual host are written to.

Files are numbered and one is appended to. A place in the journal is a single number, the file's
in the upper bits, so that later is greater. The current file is left, for a fresh one, when it is
long enough, and when a batch failed. In the second case nobody knows what is behind the last good
batch; the first record of the next file says where the last one ends that a batch is safe in: what
is beyond is void, and so is all that is in files between the two.
Its header names one that was there before it, so that a missing file is missed (completeness.py).

A file is made, named and synced before it is needed, in a thread.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from warren.storage.disk.files import Disk, append_all
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.index_format import FILE_HEADER_BYTES, JOURNAL_MAGIC, file_header
from warren.storage.index.index_records import RecordBuffer

JOURNAL_FILE_BYTES: Final = 16 * 1_048_576
"""A file of this size is followed by another, and scattered to segments."""

_OFFSET_BITS: Final = 40


def position_in(number: int, offset: int) -> int:
    return number << _OFFSET_BITS | offset


def file_of(position: int) -> int:
    return position >> _OFFSET_BITS


class Journal:
    def __init__(self, layout: IndexLayout, disk: Disk, salt: int) -> None:
        self._layout = layout
        self._disk = disk
        self._salt = salt
        self.number = -1
        self.descriptor = -1
        self.size = 0  # of what is safe
        self._previous: tuple[int, int] | None = None
        self._next_number = 0
        self._sizes: dict[int, int] = {}  # of the files before the current one
        self._left: list[int] = []  # descriptors to close
        self._newest_kept = -1

    @property
    def position(self) -> int:
        """Where the next batch begins."""
        return position_in(self.number, self.size)

    @property
    def total_bytes(self) -> int:
        return self.size + sum(self._sizes.values())

    @property
    def oldest(self) -> int:
        """The first file there is, or the one that will be."""
        return min(self._sizes, default=max(self.number, 0))

    def resume_after(self, number: int, size: int) -> None:
        """The last file from before the start, and where that ends."""
        self._previous = (number, size)
        self._newest_kept = number

    def keep(self, number: int, size: int) -> None:
        """A file from before the start."""
        self._sizes[number] = size
        self._next_number = max(self._next_number, number + 1)

    def new_number(self) -> int:
        """For a file to `create`, which may come to nothing."""
        number = self._next_number
        self._next_number += 1
        self._sizes[number] = 0
        return number

    def begin(self, number: int, descriptor: int) -> None:
        """Go on in a fresh file; only between batches."""
        assert number > self.number, "files are numbered as they come"
        if self.descriptor >= 0:
            self._sizes[self.number] = self.size
            self._left.append(self.descriptor)
            if self.size > FILE_HEADER_BYTES:
                self._previous = (self.number, self.size)
        self._sizes.pop(number, None)
        self.number = number
        self.descriptor = descriptor
        self.size = FILE_HEADER_BYTES

    def begin_if_newer(self, number: int, descriptor: int) -> None:
        """The same, unless a fresher one was begun meanwhile: after a failure, or by a roll."""
        if number > self.number:
            self.begin(number, descriptor)
        else:
            self._left.append(descriptor)

    def lead_in(self, buffer: RecordBuffer) -> None:
        """What the first batch of a file begins with."""
        if self.size == FILE_HEADER_BYTES:
            buffer.file_started(self.number, *(self._previous or (self.number, 0)))

    # These block.

    def create(self, number: int) -> int:
        """A fresh file, whose name is safe; its descriptor."""
        assert number not in {self.number, -1}
        path = self._layout.journal_file(number)
        descriptor = self._disk.open(path, create=True)
        try:
            before = self.number if self.number >= 0 else self._newest_kept
            header = file_header(JOURNAL_MAGIC, self._salt, before + 1, number)
            append_all(self._disk, descriptor, [header])
            self._disk.sync(descriptor)
            self._disk.sync_directory(path.parent)
        except OSError:
            self._disk.close(descriptor)
            raise
        return descriptor

    def drop_before(self, number: int) -> None:
        """Delete the files before this one, oldest first; a checkpoint has all they say."""
        self.close_left()
        for old in sorted(old for old in self._sizes if old < number):
            with suppress(FileNotFoundError):
                self._disk.unlink(self._layout.journal_file(old))
            del self._sizes[old]

    def close_left(self) -> None:
        while self._left:
            self._disk.close(self._left.pop())

    def close(self) -> None:
        self.close_left()
        if self.descriptor >= 0:
            self._disk.close(self.descriptor)
            self.descriptor = -1
