"""Disks that are full in a cluster: a copy that can be spared goes, the last one stays."""

from __future__ import annotations

import pytest

from cluster_simulation.full_disks import FULL_DISKS
from cluster_simulation.run import simulate
from cluster_simulation.scenarios import SCENARIOS


@pytest.mark.parametrize("name", FULL_DISKS)
def test_a_full_disk_costs_no_message_and_no_queue(name: str) -> None:
    for seed in range(10):
        assert SCENARIOS[name](seed).confirmed > 0


def test_a_mirror_that_wants_to_leave_while_its_leader_dies_stays_for_good() -> None:
    """Once it was marked as gone, being the only one that was in sync: nobody led any more."""
    assert simulate(4_812).world.witness.confirmed
