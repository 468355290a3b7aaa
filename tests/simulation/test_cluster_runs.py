"""Whole clusters under seeds: kills, pauses, cuts of every shape, and nothing confirmed is lost."""

from __future__ import annotations

import pytest

from cluster_simulation import simulate

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_confirmed_is_lost_whatever_happens(seed: int) -> None:
    simulate(seed)
