"""The files of the segment that a log is writing to. Everything here blocks."""

from __future__ import annotations

from pathlib import Path

from warren.model.logs import EventLog
from warren.storage.disk.files import Disk, append_all
from warren.storage.disk.layout import encode_name
from warren.streams.segments import NAME_FILE, SegmentFiles

_log = EventLog("streams")


class ActiveFiles:
    """`data` and `index` are descriptors; -1 while there is no such file open."""

    def __init__(self, disk: Disk, files: SegmentFiles, stream: str) -> None:
        self._disk = disk
        self._files = files
        self._stream = stream
        self.data = self.index = -1

    def begin(self) -> None:
        """The first segment of a stream that has nothing yet."""
        disk, directory = self._disk, self._files.directory
        disk.make_directory(directory)
        name = disk.open(directory / NAME_FILE, create=True)
        try:
            disk.truncate(name, 0)
            append_all(disk, name, [encode_name(self._stream)])
        finally:
            disk.close(name)
        self.create(0)
        for parent in (directory.parent, directory.parent.parent):
            disk.sync_directory(parent)

    def open(self, base: int) -> None:
        self.data = self._disk.open(self._files.data(base))
        self.index = self._disk.open(self._files.index(base))

    def create(self, base: int, former: tuple[int, int] | None = None) -> None:
        """For a segment that begins with this offset; `former`: base and safe size of the last."""
        disk = self._disk
        if self.data >= 0:
            self._leave(former)
        for path in self._paths(base):
            if former is not None and former[0] == base:
                disk.unlink(path)  # nothing in it was ever safe, and it may be beyond repair
        self.index = disk.open(self._files.index(base), create=True)
        self.data = disk.open(self._files.data(base), create=True)
        disk.sync_directory(self._files.directory)

    def _paths(self, base: int) -> tuple[Path, Path]:
        return self._files.index(base), self._files.data(base)

    def _leave(self, former: tuple[int, int] | None) -> None:
        """Those of the segment so far, cut to what of it is safe."""
        disk = self._disk
        data, index, self.data, self.index = self.data, self.index, -1, -1
        try:
            if former is not None and disk.size(self._files.data(former[0])) > former[1]:
                disk.truncate(data, former[1])
            disk.sync(index)
        except OSError as error:  # or it is deleted
            _log.warning("stream segment could not be cut", stream=self._stream, error=error)
        finally:
            disk.close(data)
            disk.close(index)

    def close(self) -> None:
        data, index, self.data, self.index = self.data, self.index, -1, -1
        for descriptor in (data, index):
            if descriptor >= 0:
                self._disk.close(descriptor)
