"""A store of every engine, opened and closed again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from metadata_engines import ENGINES, MakeStore
from warren.metadata.store import MetadataStore

# Descriptors that a loop watches are its own affair, so what uses them is tried on both.
ON_BOTH_LOOPS = {"test_committer"}


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.stem in ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(params=sorted(ENGINES))
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    return ENGINES[request.param](tmp_path)


@pytest.fixture
async def store(make_store: MakeStore) -> AsyncIterator[MetadataStore]:
    store = make_store()
    await store.open()
    yield store
    await store.close()
