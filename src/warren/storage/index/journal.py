"""The journal: the one log that all queues of a virtual host are written to.

Files are numbered and one is appended to. A place in the journal is a single number, the file's
in the upper bits, so that later is greater. The current file is left, for a fresh one, when it is
long enough, and when a batch failed. In the second case nobody knows what is behind the last good
batch; the first record of the next file says where the last one ends that a batch is safe in: what
is beyond is void, and so is all that is in files between the two.
Its header names one that was there before it, so that a missing file is missed (completeness.py).

A file is made, named and synced before it is needed, in a thread.

**Zeros ahead.** A sync of a file that has grown also commits the file system's own journal, which
takes longer than the record does. So a small batch that outgrows its file is followed by zeros, in
the same write, and those after it replace zeros: only every hundredth sync or so has to make a new
length safe. Large batches, whose bytes cost more than that, bring no zeros. They end the last files
only until a clean stop, are never taken for records (a record has a kind, which is not zero), and a
torn record among them has a wrong checksum, as it has at the end of a file. Where records end is
therefore found by reading them, never by the length of the file. Nothing but zeros is ever written
over: a file is never used again, and one with a failed batch is left. A disk on which a batch has
failed may be full: that batch's zeros are given back, and nothing is written ahead until old files
were deleted.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from warren.storage.disk.files import Buffer, Disk, place_all
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.index_format import FILE_HEADER_BYTES, JOURNAL_MAGIC, file_header
from warren.storage.index.index_records import RecordBuffer

JOURNAL_FILE_BYTES: Final = 16 * 1_048_576
"""A file of this size is followed by another, and scattered to segments."""

FILL_BYTES_MIN: Final = 16_384
FILL_BYTES_MAX: Final = 262_144
"""Zeros written ahead; twice as many each time, up to the second. Others than a journal that is
written to have none."""

FILLED_BATCH_BYTES_MAX: Final = 16_384
"""A batch of more than this brings no zeros."""

_ZEROS: Final = memoryview(bytes(FILL_BYTES_MAX))
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
        self.may_fill = True  # whether to write zeros ahead
        self.batch_end = 0  # of the last batch, safe or not, without the zeros that it brought
        self._filled = 0  # where the file ends: records and the zeros ahead of them
        self._fill_bytes = FILL_BYTES_MIN
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
        self.size = self.batch_end = self._filled = FILE_HEADER_BYTES

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

    def place(self, records: memoryview) -> tuple[int, int, list[Buffer]]:
        """Return where the next batch goes, for `Batch.placed`, with zeros if it outgrows them."""
        pieces: list[Buffer] = [records]
        self.batch_end = end = self.size + len(records)
        if end > self._filled:
            self._filled = end
            if self.may_fill and len(records) <= FILLED_BATCH_BYTES_MAX:
                pieces.append(_ZEROS[: self._fill_bytes])
                self._filled += self._fill_bytes
                self._fill_bytes = min(2 * self._fill_bytes, FILL_BYTES_MAX)
        return self.descriptor, self.size, pieces

    # These block.

    def create(self, number: int) -> int:
        """A fresh file, whose name is safe; its descriptor."""
        assert number not in {self.number, -1}
        path = self._layout.journal_file(number)
        descriptor = self._disk.create_ahead(path)
        try:
            before = self.number if self.number >= 0 else self._newest_kept
            header = file_header(JOURNAL_MAGIC, self._salt, before + 1, number)
            place_all(self._disk, descriptor, 0, [header])
            self._disk.sync(descriptor)
            self._disk.sync_directory(path.parent)
        except OSError:
            self._disk.close(descriptor)
            raise
        return descriptor

    def create_after(self, failed: tuple[int, int, int], number: int) -> int:
        """`create`, once the zeros of a failed batch have made room: its file's number and
        descriptor, and where its records end."""
        failed_number, descriptor, end = failed
        with suppress(OSError):  # whatever is wrong with that file, it has been left
            if self._disk.size(self._layout.journal_file(failed_number)) > end:
                self._disk.truncate(descriptor, end)
        return self.create(number)

    def drop_before(self, number: int) -> None:
        """Delete the files before this one, oldest first; a checkpoint has all they say."""
        self.close_left()
        for old in sorted(old for old in self._sizes if old < number):
            with suppress(FileNotFoundError):
                self._disk.unlink(self._layout.journal_file(old))
            del self._sizes[old]
        self.may_fill = True  # there is room again, if there was none

    def close_left(self) -> None:
        while self._left:
            self._disk.close(self._left.pop())

    def close(self) -> None:
        """Let go of the files, without the zeros at the end of the current one."""
        self.close_left()
        if self.descriptor >= 0:
            if self._filled > self.size:
                with suppress(OSError):  # they do no harm
                    self._disk.truncate(self.descriptor, self.size)
            self._disk.close(self.descriptor)
            self.descriptor = -1
