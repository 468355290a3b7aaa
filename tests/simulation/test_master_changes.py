"""Masters that change in every way there is: deliveries keep their order and their marks."""

from __future__ import annotations

import pytest

from cluster_simulation.master_changes import MASTER_CHANGES
from cluster_simulation.run import simulate
from cluster_simulation.scenarios import SCENARIOS

SEEDS = 6


@pytest.mark.parametrize("name", MASTER_CHANGES)
def test_an_unmarked_delivery_is_new_and_in_order_whoever_leads(name: str) -> None:
    promotions = 0
    for seed in range(SEEDS):
        promotions += SCENARIOS[name](seed).promotions
    assert promotions >= SEEDS, "somebody else led"


def test_a_life_with_two_masters_in_turn_keeps_its_marks() -> None:
    """A message came twice as new, for the node that led before led again."""
    assert simulate(30).world.witness.confirmed
