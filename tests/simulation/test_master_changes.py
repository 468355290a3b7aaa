"""Masters that change in every way there is: deliveries keep their order and their marks."""

from __future__ import annotations

import pytest

from cluster_simulation.breaks import trust_old_marks
from cluster_simulation.master_changes import MASTER_CHANGES, rolling_restarts
from cluster_simulation.run import simulate
from cluster_simulation.scenarios import SCENARIOS
from gm_invariants import Violation

SEEDS = 6


@pytest.mark.parametrize("name", MASTER_CHANGES)
def test_an_unmarked_delivery_is_new_and_in_order_whoever_leads(name: str) -> None:
    promotions = 0
    for seed in range(SEEDS):
        promotions += SCENARIOS[name](seed).promotions
    assert promotions >= SEEDS, "somebody else led"


def test_a_copy_that_comes_back_and_leads_again_delivers_nothing_old_as_new() -> None:
    """What it had not delivered itself it once delivered as new, though others had meanwhile."""
    with trust_old_marks(), pytest.raises(Violation, match="comes as new after"):
        rolling_restarts(1)
    assert rolling_restarts(1).witness.promotions > 1


def test_a_life_with_two_masters_in_turn_keeps_its_marks() -> None:
    """A message came twice as new, for the node that led before led again."""
    assert simulate(30).world.witness.confirmed
