"""Nodes that tests of claims share: one, three that may be killed, and four that may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptance.control import control
from acceptance.management_client import api, vhost
from cluster.conftest import name, open_on
from cluster.mirrored import MirroredCluster
from durability.conftest import faulty, make_broker
from live_broker import broker, channel, connect, names, own_broker, raw

# So slow that a synchronisation can be looked at, and cancelled.
SLOW_SYNC = "mirroring_sync_max_throughput = 100kB\n"
WITH_LOCATOR = 3
"""Of the four nodes, the one whose configuration file says where queues go."""


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    """Four nodes that no test stops; queues called `mirrored...` are on all of them."""
    cluster = MirroredCluster(tmp_path_factory.mktemp("four"), size=4, config=SLOW_SYNC)
    cluster.nodes[WITH_LOCATOR].configure(f"{SLOW_SYNC}queue_master_locator = min-masters\n")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    cluster = MirroredCluster(tmp_path_factory.mktemp("three"), config="log.queue.level = info\n")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def three(mortal: MirroredCluster) -> MirroredCluster:
    """Three nodes that a test may stop and kill: those of earlier tests are back."""
    mortal.start_all()
    return mortal


__all__ = [
    "api", "broker", "channel", "connect", "control", "faulty", "make_broker", "name", "names",
    "open_on", "own_broker", "raw", "vhost",
]  # fmt: skip
