"""Cutting a log short, where another copy of it counts and says otherwise.

Files go from the newest to the oldest, and what is left is synced: whenever a crash comes, there is
a beginning of the log, without a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO

from warren.storage.disk.files import Disk
from warren.storage.disk.layout import numbered
from warren.streams.active_files import ActiveFiles
from warren.streams.chunk_format import MalformedChunk
from warren.streams.pending_chunks import PendingChunk
from warren.streams.reading import SegmentReader
from warren.streams.segments import DATA_SUFFIX, Segment, SegmentFiles, recover_segments


class Cut:
    """One that is asked for: leave what is before `end`; or nothing at all, and begin there."""

    __slots__ = ("done", "end", "is_anew")

    def __init__(self, end: int, is_anew: bool, done: Callable[[], None]) -> None:
        self.end = end
        self.is_anew = is_anew
        self.done = done

    def what_is_left(self, chunks: list[PendingChunk]) -> list[PendingChunk]:
        return [] if self.is_anew else [c for c in chunks if c.first_offset < self.end]

    def and_then(self, cut: Cut) -> Cut:
        """Both, of what is in files: what came in between the two is not there yet."""
        if cut.is_anew:
            return cut
        return Cut(min(self.end, cut.end), self.is_anew, cut.done)


def make_cut(disk: Disk, files: SegmentFiles, active: ActiveFiles, cut: Cut) -> list[Segment]:
    """What is left, ready to be written to. Blocks."""
    active.close()
    if cut.is_anew:
        clear_segments(disk, files)
        active.create(cut.end)
        return [Segment(cut.end, cut.end)]
    try:
        segments = cut_segments(disk, files, cut.end)
    except MalformedChunk:
        segments = []
    if not segments or segments[-1].end != cut.end:
        raise OSError(EIO, "what was to be left is damaged")
    active.open(segments[-1].base)
    return segments


def cut_segments(disk: Disk, files: SegmentFiles, end: int) -> list[Segment]:
    """Leave what is before this offset, at which a chunk begins; what that is. Blocks."""
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
    """Blocks."""
    for base in reversed(numbered(disk.list(files.directory), DATA_SUFFIX)):
        _remove(disk, files, base)
    disk.sync_directory(files.directory)


def _remove(disk: Disk, files: SegmentFiles, base: int) -> None:
    """The index first: one without its segment would be taken for that of the next of its name."""
    for path in (files.index(base), files.data(base)):
        disk.unlink(path)
