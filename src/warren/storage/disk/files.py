"""Everything the broker does to files, in one place, so that tests can take the disk away.

A `Disk` is deliberately poor: files grow at their end or are cut, and nothing is ever overwritten
but zeros, once, in files that are written ahead. That is all a log needs, and it keeps the question
"what is on the platter after a crash?" small:

* `append` and `truncate` reach the page cache. They are safe after `sync` of that file, in full or
  not at all promised before it: any part of what was not synced may be there, missing or zero.
* `place` writes over zeros, or at the end. What it replaced is there again, zero, where it is lost.
* a name (a new file, a rename, an unlink, a new directory) is safe after `sync_directory` of the
  directory that holds it, not by syncing the file.
* a **failed sync is final**: the kernel may have dropped the pages and call them clean, so the next
  sync of the same file succeeds without having written them. Whoever sees one leaves that file and
  writes anew, elsewhere, what it cannot prove safe.

Every call blocks and raises `OSError`; calls that may wait for the platter belong in a thread.
Descriptors may be used from several threads, but only one at a time may append to one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Location: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = list[str]

# The kernel takes no more pieces than this at once (IOV_MAX).
PIECES_MAX: Final = 1_024


class Disk(Protocol):
    """What storage may do to files."""

    # Growing a file.

    def open(self, path: Location, *, create: bool = False) -> int:
        """A descriptor that reads anywhere and appends; an existing file keeps its content."""

    def append(self, descriptor: int, pieces: Sequence[Buffer]) -> int:
        """Write the pieces at the end, one after another; how many bytes went may be fewer."""

    def create_ahead(self, path: Location) -> int:
        """Make a file that is written ahead; its descriptor is for `place`, not for `append`."""

    def place(self, descriptor: int, offset: int, pieces: Sequence[Buffer]) -> int:
        """Write the pieces at `offset`; how many bytes went may be fewer."""

    def sync(self, descriptor: int) -> None:
        """Return when content and length of the file would survive a power cut."""

    def truncate(self, descriptor: int, size: int) -> None: ...

    def close(self, descriptor: int) -> None: ...

    # Looking.

    def read(self, descriptor: int, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`, fewer only where the file ends."""

    def size(self, path: Location) -> int: ...

    def list(self, path: Location) -> Names:
        """Names in a directory, in order of name."""

    def free_bytes(self, path: Location) -> int:
        """What an ordinary user may still write to the file system of `path`."""

    # Names.

    def unlink(self, path: Location) -> None: ...

    def rename(self, source: Location, target: Location) -> None:
        """Replaces `target`; after a crash there is the old one or the new one, whole."""

    def make_directory(self, path: Location) -> None:
        """With its parents; content when it is there already."""

    def remove_directory(self, path: Location) -> None:
        """An empty one."""

    def sync_directory(self, path: Location) -> None:
        """Return when the names in it would survive a power cut."""


class RealDisk:
    def open(self, path: Location, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        return os.open(path, flags | os.O_CREAT if create else flags, 0o600)

    def append(self, descriptor: int, pieces: Sequence[Buffer]) -> int:
        return os.writev(descriptor, pieces[:PIECES_MAX])

    def create_ahead(self, path: Location) -> int:
        # Without O_APPEND: with it Linux writes at the end, wherever pwrite is told to.
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600)

    def place(self, descriptor: int, offset: int, pieces: Sequence[Buffer]) -> int:
        return os.pwritev(descriptor, pieces[:PIECES_MAX], offset)

    def sync(self, descriptor: int) -> None:
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync() there stops at the drive's cache
        else:
            os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def read(self, descriptor: int, offset: int, size: int) -> bytes:
        data = os.pread(descriptor, size, offset)
        if len(data) == size or not data:
            return data
        return data + self.read(descriptor, offset + len(data), size - len(data))

    def size(self, path: Location) -> int:
        return os.stat(path).st_size

    def list(self, path: Location) -> Names:
        return sorted(os.listdir(path))

    def free_bytes(self, path: Location) -> int:
        figures = os.statvfs(path)
        return figures.f_bavail * figures.f_frsize

    def unlink(self, path: Location) -> None:
        os.unlink(path)

    def rename(self, source: Location, target: Location) -> None:
        os.replace(source, target)

    def make_directory(self, path: Location) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def remove_directory(self, path: Location) -> None:
        os.rmdir(path)

    def sync_directory(self, path: Location) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def append_all(disk: Disk, descriptor: int, pieces: Sequence[Buffer]) -> None:
    """`append` until everything went."""
    _write_all(lambda written, views: disk.append(descriptor, views), pieces)


def place_all(disk: Disk, descriptor: int, offset: int, pieces: Sequence[Buffer]) -> None:
    """`place` until everything went."""
    _write_all(lambda written, views: disk.place(descriptor, offset + written, views), pieces)


def _write_all(write: Callable[[int, list[memoryview]], int], pieces: Sequence[Buffer]) -> None:
    """Call `write` with how much was written before, and what is left, until everything went."""
    views = [view for view in (memoryview(piece).cast("B") for piece in pieces) if view]
    first = written = 0
    while first < len(views):
        went = write(written, views[first : first + PIECES_MAX])
        if went <= 0:
            raise OSError(errno.EIO, "the disk takes nothing and does not say why")
        written += went
        while first < len(views) and went >= len(views[first]):
            went -= len(views[first])
            first += 1
        if went:
            views[first] = views[first][went:]


def read_file(
    disk: Disk, path: Location, size: int | None = None, *, is_synced: bool = False
) -> bytes:
    """The first `size` bytes, or all; `is_synced`: a power cut cannot take back what was read."""
    descriptor = disk.open(path)
    try:
        data = disk.read(descriptor, 0, disk.size(path) if size is None else size)
        if is_synced:
            disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    return data


def replace_file(disk: Disk, path: Location, pieces: Sequence[Buffer]) -> None:
    """Give `path` this content: after a crash at any point there is the old one or the new one."""
    target = Path(path)
    draft = target.with_name(target.name + ".draft")
    descriptor = disk.open(draft, create=True)
    try:
        disk.truncate(descriptor, 0)  # what an earlier crash left of a draft
        append_all(disk, descriptor, pieces)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    disk.rename(draft, target)
    disk.sync_directory(target.parent)
