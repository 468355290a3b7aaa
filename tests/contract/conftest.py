"""A store of every engine, opened and closed again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from metadata_engines import ENGINES, MakeStore
from warren.metadata.store import MetadataStore


@pytest.fixture(params=sorted(ENGINES))
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    return ENGINES[request.param](tmp_path)


@pytest.fixture
async def store(make_store: MakeStore) -> AsyncIterator[MetadataStore]:
    store = make_store()
    await store.open()
    yield store
    await store.close()
