from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from link_world import LinkWorld


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[LinkWorld]:
    async with BrokerWorld(tmp_path) as world:
        yield LinkWorld(world)
