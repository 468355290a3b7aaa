"""A store whose disk is stuck until the test frees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from metadata_disks import HeldFile
from warren.metadata.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


@pytest.fixture
async def held(path: Path) -> AsyncIterator[tuple[SqliteStore, HeldFile]]:
    store = SqliteStore(path)
    file = store._file = HeldFile(path)
    await store.open()
    yield store, file
    file.free.set()
    await store.close()
