"""Exactly once from a mirrored stream: its master is killed while a lake is filled from it.

`scripts/chaos --ingest --mirrored` does the same with many more faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_chaos.mirrored import MirroredChaos


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[MirroredChaos]:
    chaos = MirroredChaos(tmp_path, seed=1)
    yield chaos
    chaos.publisher.stop()
    chaos.end()


def test_each_message_is_in_the_lake_once_after_kill_9_of_the_streams_master(
    chaos: MirroredChaos,
) -> None:
    """Publisher and job go on at the nodes that are left, with what was confirmed by the dead."""
    chaos.begin()
    chaos.harm("master")
    chaos.check()
