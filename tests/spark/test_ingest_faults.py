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
    """The job is a process of its own, started again when its driver was killed.

    Without workers, or the broker, it goes on by itself when they are there again.
    """
    chaos.begin()
    chaos.harm("driver")
    chaos.harm("workers")
    started_again = chaos.job.pid
    chaos.harm("broker")
    assert chaos.job.pid == started_again
    chaos.check()
