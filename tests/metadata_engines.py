"""Engines under contract: for each, what makes handles on one and the same data.

A new engine joins by a line in ENGINES and is then asked everything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import MetadataStore

MakeStore: TypeAlias = Callable[[], MetadataStore]

ENGINES: dict[str, Callable[[Path], MakeStore]] = {
    "sqlite": lambda directory: lambda: SqliteStore(directory / "metadata.db"),
}
