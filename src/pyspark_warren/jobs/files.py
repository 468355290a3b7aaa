"""Files of a lake, wherever Spark can keep them: a local disk, HDFS, an object store.

All of it goes through Hadoop's file systems in the driver's JVM, as Spark's own writes do, so that
a path means the same here as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class File:
    path: str
    """Below the root, with slashes."""
    size: int


class Files:
    """The files below one root. Paths are relative to it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        context = spark.sparkContext
        jvm: Any = context._jvm
        self._jvm = jvm
        plain = jvm.org.apache.hadoop.fs.Path(root)
        java_context: Any = context._jsc
        self._system = plain.getFileSystem(java_context.hadoopConfiguration())
        self._root = self._system.makeQualified(plain)
        self.root = str(self._root.toString())

    def whole(self, path: str) -> str:
        """As Spark takes it."""
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def read(self, path: str) -> str:
        stream = self._system.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Is there as a whole or not at all, whenever this process ends."""
        folder, _, name = path.rpartition("/")
        draft = self._path(f"{folder}/.{name}.draft")
        stream = self._system.create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._rename(draft, self._path(path))

    def move(self, source: str, target: str) -> None:
        """Does nothing if it was done before."""
        if not self.exists(source):
            assert self.exists(target), f"{source} is neither there nor moved to {target}"
            return
        destination = self._path(target)
        self._system.mkdirs(destination.getParent())
        self._rename(self._path(source), destination)

    def delete(self, path: str) -> None:
        """A file, or a folder with all that is in it. Does nothing if it is not there."""
        self._system.delete(self._path(path), True)

    def names(self, folder: str) -> list[str]:
        """What is directly in a folder, in order; hidden names left out."""
        if not self.exists(folder):
            return []
        found = [str(s.getPath().getName()) for s in self._system.listStatus(self._path(folder))]
        return sorted(name for name in found if not name.startswith("."))

    def walk(self, folder: str, suffix: str) -> list[File]:
        """All files below a folder that end so, in order."""
        if not self.exists(folder):
            return []
        found = []
        statuses = self._system.listFiles(self._path(folder), True)
        while statuses.hasNext():
            status = statuses.next()
            path = str(status.getPath().toUri().getPath())
            if path.endswith(suffix) and not path.rpartition("/")[2].startswith("."):
                found.append(File(self._below_root(path), int(status.getLen())))
        return sorted(found, key=lambda file: file.path)

    def _below_root(self, path: str) -> str:
        return path.removeprefix(str(self._root.toUri().getPath())).removeprefix("/")

    def _path(self, path: str) -> Any:
        # Of two parts, as a colon in the first would be taken for a scheme.
        return self._jvm.org.apache.hadoop.fs.Path(self._root, f"./{path}")

    def _rename(self, source: Any, target: Any) -> None:
        if not self._system.rename(source, target):
            raise OSError(f"cannot rename {source.toString()} to {target.toString()}")
