"""The directory a node keeps everything in, and whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME_FILE: Final = "node"


class DataDirectoryError(Exception):
    """The data directory cannot be used; the text is for the operator."""


def claim_data_directory(path: Path, node: str) -> None:
    """Make it if it is missing. What another node keeps there is not this one's to serve."""
    name_file = path / NAME_FILE
    try:
        path.mkdir(parents=True, exist_ok=True)
        owner = name_file.read_text().strip() if name_file.exists() else None
        if owner is None:
            name_file.write_text(f"{node}\n")
    except OSError as error:
        raise DataDirectoryError(
            f"cannot use the data directory {path}: {(error.strerror or str(error)).lower()}; "
            "choose another with --data-dir"
        ) from error
    if owner not in (None, node):
        raise DataDirectoryError(
            f"the data directory {path} belongs to node {owner}, and this is {node}; "
            f"choose another with --data-dir, or start with --name {owner}"
        )
