"""7-01 to 7-14: cuts by script, and what comes of them here: `cluster_simulation.partitions`."""

from __future__ import annotations

import pytest

from cluster_simulation.fences import FENCES, LINK_SHAPES, STORES, no_dual_leader
from cluster_simulation.partitions import PARTITIONS
from cluster_simulation.scenarios import SCENARIOS

CHUNKS = 4


@pytest.mark.parametrize("name", PARTITIONS)
def test_7_01_to_7_09_a_partition_ends_as_it_should(name: str) -> None:
    assert SCENARIOS[name](seed=0).confirmed > 0


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_7_10_no_shape_of_cut_makes_two_leaders(chunk: int) -> None:
    """Every set of links, each way for itself; who has no store takes turns."""
    for shape in range(chunk, LINK_SHAPES, CHUNKS):
        no_dual_leader(shape + LINK_SHAPES * (shape % len(STORES)))


@pytest.mark.parametrize("name", FENCES)
def test_7_10_to_7_14_there_is_one_leader(name: str) -> None:
    for seed in range(3):
        assert SCENARIOS[name](seed).confirmed > 0
