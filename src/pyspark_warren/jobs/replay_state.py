"""State of a replay from a lake: for each queue, the first offset that is not published yet.

It is kept by offsets and not by files, so that files which are put together meanwhile make nothing
be published again. A batch is published, and then the state is written: killed in between, that
batch is published again, and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyarrow import fs

from pyspark_warren.errors import InvalidOption
from pyspark_warren.lake.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE: Final = "replay.json"
# What Spark's checkpoints have, which was the state before.
_OLD: Final = "offsets"


@dataclass(slots=True)
class ReplayState:
    """Where a replay goes on; kept in memory only if there is no path."""

    path: str | None
    replay: Mapping[str, str | None]
    """The source and the target of a replay: the state of one replay is no good for another."""
    positions: dict[str, int] = field(default_factory=dict)

    def load(self) -> None:
        """Read what an earlier run has left. Raises InvalidOption if it was another replay."""
        if self.path is None:
            return
        filesystem, root = Storage.of(self.path).open()
        if _is_there(filesystem, f"{root}/{_OLD}"):
            raise InvalidOption(
                f"option state: {self.path} is of another version or of a replay from streams; "
                "give a new path"
            )
        if not _is_there(filesystem, f"{root}/{_FILE}"):
            return
        with filesystem.open_input_stream(f"{root}/{_FILE}") as stream:
            known = json.loads(stream.read())
        if known["replay"] != dict(self.replay):
            changed = [
                name for name, value in self.replay.items() if known["replay"].get(name) != value
            ]
            raise InvalidOption(
                f"option state: {self.path} is of a replay with other options "
                f"({', '.join(changed)}); give the same ones, or a new path"
            )
        self.positions = {queue: int(offset) for queue, offset in known["positions"].items()}

    def advance(self, ends: Mapping[str, int]) -> None:
        """Remember that everything before these offsets is published."""
        self.positions |= ends
        if self.path is None:
            return
        filesystem, root = Storage.of(self.path).open()
        filesystem.create_dir(root, recursive=True)
        shown = {"replay": dict(self.replay), "positions": self.positions}
        with filesystem.open_output_stream(f"{root}/.{_FILE}") as stream:
            stream.write(json.dumps(shown).encode())
        filesystem.move(f"{root}/.{_FILE}", f"{root}/{_FILE}")


def _is_there(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type != fs.FileType.NotFound)
