"""Kills and power cuts at random moments under mixed load: nothing confirmed is lost.

`scripts/torture` does the same for longer, and repeats a seed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from durability.activity import BEGINS
from durability.torture import Torture

KILLS = 20
POWER_CUTS = 10
SECONDS_MAX = 80
# A run that is slow must still have shown something, and goes on for that.
KILLS_MIN = 5
MORE_SECONDS_MAX = 240


def seed() -> int:
    """The same in every run; `scripts/torture` tries others."""
    return int(os.environ.get("CHAOS_SEED", "1"))


def has_done_everything(torture: Torture) -> bool:
    return (
        torture.kills >= KILLS_MIN
        and torture.ledger.delivered > 0
        and torture.ledger.settled > 0
        and all(torture.activity.done[kind] > 0 for kind in BEGINS)
        and torture.paged_out_most > 0
    )


@pytest.mark.timeout(SECONDS_MAX + MORE_SECONDS_MAX + 180)
def test_kills_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """SIGKILL during publishes, acknowledgements, purges, deletions and starts."""
    torture = Torture(tmp_path, seed())
    torture.run(KILLS, SECONDS_MAX)
    deadline = time.monotonic() + MORE_SECONDS_MAX
    while not has_done_everything(torture) and time.monotonic() < deadline:
        torture.run(torture.kills + 2, MORE_SECONDS_MAX)
    assert has_done_everything(torture), torture.summary()


@pytest.mark.timeout(SECONDS_MAX + MORE_SECONDS_MAX + 180)
def test_power_cuts_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """The same with what was not synced taken away, every second time."""
    torture = Torture(tmp_path, seed(), has_power_cuts=True)
    torture.run(POWER_CUTS, SECONDS_MAX)
    if torture.kills < KILLS_MIN:
        torture.run(KILLS_MIN, MORE_SECONDS_MAX)
    assert torture.kills >= KILLS_MIN
    assert torture.ledger.confirmed > 0
