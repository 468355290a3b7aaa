"""Engines under contract: something that makes handles on one and the same data.

A new engine joins by a line in ENGINES and is then asked everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import MetadataStore

MakeStore: TypeAlias = Callable[[], MetadataStore]

ENGINES: dict[str, Callable[[Path], MakeStore]] = {
    "sqlite": lambda directory: lambda: SqliteStore(directory / "metadata.db"),
}


@pytest.fixture(params=sorted(ENGINES))
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    return ENGINES[request.param](tmp_path)


@pytest.fixture
async def store(make_store: MakeStore) -> AsyncIterator[MetadataStore]:
    store = make_store()
    await store.open()
    yield store
    await store.close()
