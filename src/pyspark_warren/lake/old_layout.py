"""Old layout of a lake, from before Delta: plain files, and commits that moved them into place.

    _commits/0000000007.json     batch 7: which files belong where; `moves` may not be done yet
    _staging/...                 files of batches that are not in place
    messages/queue=Q/hour=H/     every Parquet file counts, but a guard while files were replaced

Only conversion reads it (`pyspark_warren.jobs.convert`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyarrow import fs

from pyspark_warren.lake import STAGING
from pyspark_warren.lake.opening import OLD_COMMITS

if TYPE_CHECKING:
    from pyspark_warren.lake.storage import Storage

_GUARD: Final = "being-compacted-read-again.parquet"
_SUFFIX: Final = ".parquet"


@dataclass(frozen=True, slots=True)
class OldBatch:
    """The newest batch that the lake has."""

    query: str
    number: int


class OldLayout:
    """A lake of the old layout."""

    def __init__(self, storage: Storage) -> None:
        self._filesystem, self._root = storage.open()

    @property
    def is_there(self) -> bool:
        return self._exists(OLD_COMMITS)

    def finish_commits(self) -> OldBatch | None:
        """Finish what was committed and not done, and return the newest batch."""
        newest: OldBatch | None = None
        for name in self._commits():
            commit = self._read(f"{OLD_COMMITS}/{name}")
            if self._exists(commit["staging"]):  # it was deleted last: without it, all is done
                self._finish(commit)
            if commit["name"][0].isdigit():
                newest = OldBatch(commit["query"], int(commit["name"]))
        self._delete(STAGING)
        return newest

    def files(self, table: str) -> list[str]:
        """Return the paths of a table's files, below the lake; those of Delta's are others."""
        return sorted(
            path for path in self._walk(table) if path.endswith(_SUFFIX) and "/." not in path
        )

    def remove(self, paths: list[str]) -> None:
        """Delete files, their checksums, and what says that this is an old lake."""
        for path in paths:
            folder, _, name = path.rpartition("/")
            for each in (path, f"{folder}/.{name}.crc"):
                self._delete(each)
        self._delete(OLD_COMMITS)

    def _finish(self, commit: dict[str, Any]) -> None:
        for source, target in commit["moves"]:
            if self._exists(source):
                folder = f"{self._root}/{target}".rpartition("/")[0]
                self._filesystem.create_dir(folder, recursive=True)
                self._filesystem.move(f"{self._root}/{source}", f"{self._root}/{target}")
        for path in commit["removals"]:
            self._delete(path)
            self._delete(f"{path.rpartition('/')[0]}/{_GUARD}")
        self._delete(commit["staging"])

    def _commits(self) -> list[str]:
        names = [path.rpartition("/")[2] for path in self._walk(OLD_COMMITS)]
        return sorted(name for name in names if name.endswith(".json") and name[0] != ".")

    def _read(self, path: str) -> dict[str, Any]:
        with self._filesystem.open_input_stream(f"{self._root}/{path}") as stream:
            found: dict[str, Any] = json.loads(stream.read())
        return found

    def _walk(self, folder: str) -> list[str]:
        chosen = fs.FileSelector(f"{self._root}/{folder}", recursive=True, allow_not_found=True)
        infos = self._filesystem.get_file_info(chosen)
        files = [info.path for info in infos if info.type == fs.FileType.File]
        return [path.removeprefix(self._root).lstrip("/") for path in files]

    def _exists(self, path: str) -> bool:
        info = self._filesystem.get_file_info(f"{self._root}/{path}")
        return bool(info.type != fs.FileType.NotFound)

    def _delete(self, path: str) -> None:
        info = self._filesystem.get_file_info(f"{self._root}/{path}")
        if info.type == fs.FileType.Directory:
            self._filesystem.delete_dir(info.path)
        elif info.type == fs.FileType.File:
            self._filesystem.delete_file(info.path)
