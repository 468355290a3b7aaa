"""Cutting a log short, where another copy of it counts and says otherwise. Everything here blocks.

Files go from the newest to the oldest, and what is left is synced: whenever a crash comes, there is
a beginning of the log, without a hole.
"""

from __future__ import annotations

from warren.storage.disk import Disk
from warren.storage.layout import numbered
from warren.streams.reading import SegmentReader
from warren.streams.segments import DATA_SUFFIX, Segment, SegmentFiles, recover_segments


def cut_segments(disk: Disk, files: SegmentFiles, end: int) -> list[Segment]:
    """Leave what is before this offset, at which a chunk begins; what that is."""
    bases = numbered(disk.list(files.directory), DATA_SUFFIX)
    while len(bases) > 1 and bases[-1] >= end:
        _remove(disk, files, bases.pop())
    segment = recover_segments(disk, files)[-1]
    if segment.end > end:
        reader = SegmentReader(disk, files)
        size = reader.position_of_first(segment, lambda entry: entry.first_offset >= end)
        data = disk.open(files.data(segment.base))
        try:
            disk.truncate(data, size)
        finally:
            disk.close(data)
    disk.sync_directory(files.directory)
    return recover_segments(disk, files)  # which makes the index fit, and syncs


def clear_segments(disk: Disk, files: SegmentFiles) -> None:
    for base in reversed(numbered(disk.list(files.directory), DATA_SUFFIX)):
        _remove(disk, files, base)
    disk.sync_directory(files.directory)


def _remove(disk: Disk, files: SegmentFiles, base: int) -> None:
    """The index first: one without its segment would be taken for that of the next of its name."""
    for path in (files.index(base), files.data(base)):
        disk.unlink(path)
