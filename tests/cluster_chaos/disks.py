"""A disk of its own for a node, so small that it can be filled."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path
from typing import Final

SIZE: Final = "96m"
PIECE: Final = bytes(65_536)


class SmallDisk:
    """In memory; it ends with the tool, whose mounts are its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def mount(self) -> None:
        self.path.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(self.path)], check=True
        )

    def unmount(self) -> None:
        """The directory can be removed then; twice is once."""
        subprocess.run(["umount", str(self.path)], check=False, capture_output=True)

    def fill(self) -> None:
        """To the last byte. What is freed meanwhile can be filled again."""
        for piece in (PIECE, b"\0"):
            try:
                with self._ballast.open("ab", buffering=0) as ballast:
                    while ballast.write(piece) == len(piece):
                        pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)
