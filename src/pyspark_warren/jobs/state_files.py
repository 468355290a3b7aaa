"""State files of a job: below a directory of this machine, or in a store that pyarrow knows.

The job itself reads and writes them, not Spark: with Spark Connect, Spark has another machine's
disk and no JVM to ask. A path without a scheme is a directory here; `s3://`, `gs://` and `hdfs://`
go to their stores, with the credentials of the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from pyspark_warren.errors import InvalidOption

_PUT_WHOLE: Final = frozenset({"s3", "gcs", "abfs"})
"""Stores in which a file is there once it is written, and in which a rename is a copy."""


class StateFiles:
    """The files below one root. Paths are relative to it."""

    def __init__(self, root: str) -> None:
        self._system: Any = LocalFileSystem()
        self._root = str(Path(root).absolute())
        if "://" in root or root.startswith("file:"):
            try:
                self._system, self._root = FileSystem.from_uri(root)
            except (ArrowInvalid, OSError) as error:
                raise InvalidOption(f"option state: {root}: {error}") from error

    def names(self, folder: str) -> list[str]:
        """Return what is directly in a folder, in order; without hidden names."""
        selector = FileSelector(self._path(folder), allow_not_found=True)
        names = [info.base_name for info in self._system.get_file_info(selector)]
        return sorted(name for name in names if not name.startswith("."))

    def exists(self, path: str) -> bool:
        found = self._system.get_file_info(self._path(path))
        return bool(found.type != FileType.NotFound)

    def read(self, path: str) -> str:
        with self._system.open_input_stream(self._path(path)) as stream:
            return bytes(stream.read()).decode()

    def write(self, path: str, text: str) -> None:
        """Write a new file, which is there as a whole or not at all whenever this process ends."""
        target = self._path(path)
        folder, _, name = target.rpartition("/")
        self._system.create_dir(folder, recursive=True)
        if self._system.type_name in _PUT_WHOLE:
            self._put(target, text)
            return
        draft = f"{folder}/.{name}.draft"
        self._put(draft, text)
        self._system.move(draft, target)

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        if self.exists(path):
            self._system.delete_file(self._path(path))

    def _put(self, path: str, text: str) -> None:
        with self._system.open_output_stream(path) as stream:
            stream.write(text.encode())

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"
