"""Exactly once: whatever is killed while a lake is filled, it has each confirmed message once.

`scripts/chaos --ingest` does the same with many more faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_chaos.chaos import Chaos


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    chaos = Chaos(tmp_path, seed=1)
    yield chaos
    chaos.publisher.stop()
    chaos.end()


def test_each_message_is_in_the_lake_once_after_kills_of_driver_workers_and_broker(
    chaos: Chaos,
) -> None:
    """The job is a process of its own, started again whenever a fault has ended it."""
    chaos.begin()
    for fault in ("driver", "workers", "broker"):
        chaos.harm(fault)
    chaos.check()
