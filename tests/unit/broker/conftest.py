from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from warren.broker.vhost import VirtualHost


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[BrokerWorld]:
    async with BrokerWorld(tmp_path) as started:
        yield started


@pytest.fixture
def vhost(world: BrokerWorld) -> VirtualHost:
    return world.vhost
