"""Kills and power cuts at random moments under mixed load: nothing confirmed is lost.

`scripts/torture` does the same for longer, and repeats a seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from durability.activity import BEGINS
from durability.torture import Torture

KILLS = 20
POWER_CUTS = 10
SECONDS_MAX = 80
# A run that is slow must still have shown something.
KILLS_MIN = 5


def seed() -> int:
    """The same in every run; `scripts/torture` tries others."""
    return int(os.environ.get("CHAOS_SEED", "1"))


@pytest.mark.timeout(SECONDS_MAX + 120)
def test_kills_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """SIGKILL during publishes, acknowledgements, purges, deletions and starts."""
    torture = Torture(tmp_path, seed())
    torture.run(KILLS, SECONDS_MAX)
    print(torture.summary())
    assert torture.kills >= KILLS_MIN
    assert torture.ledger.delivered > 0
    assert torture.ledger.settled > 0
    assert all(torture.activity.done[kind] > 0 for kind in BEGINS), str(torture.activity)
    assert torture.paged_out_most > 0


@pytest.mark.timeout(SECONDS_MAX + 120)
def test_power_cuts_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """The same with what was not synced taken away, every second time."""
    torture = Torture(tmp_path, seed(), has_power_cuts=True)
    torture.run(POWER_CUTS, SECONDS_MAX)
    assert torture.kills >= KILLS_MIN
    assert torture.ledger.confirmed > 0
