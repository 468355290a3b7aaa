"""7-10, 7-11: whole clusters under seeds: kills, pauses, cuts of every shape, nothing is broken.

A failure names its seed; `scripts/simulate --seed SEED --runs 1` lives that life again.
"""

from __future__ import annotations

import pytest

from cluster_simulation.run import simulate
from cluster_simulation.scenarios import quorum
from cluster_simulation.summary import Summary

RUNS = 300
CHUNKS = 30


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_7_10_7_11_random_lives_of_clusters_break_no_promise(chunk: int) -> None:
    total = Summary()
    for seed in range(chunk, RUNS, CHUNKS):
        total += Summary.of(simulate(seed).world)
    assert total.promotions > 0, "there was nothing to be seen"
    assert total.confirmed > 0


def test_a_seed_tells_all_of_a_life() -> None:
    lives = [simulate(3) for _ in range(2)]
    assert lives[0].harm.story == lives[1].harm.story
    assert Summary.of(lives[0].world) == Summary.of(lives[1].world)
    assert lives[0].world.record == lives[1].world.record


def test_quorum_queues_break_no_promise_either() -> None:
    total = Summary()
    for seed in range(12):
        total += quorum(seed)
    assert total.promotions > 0, "there was nothing to be seen"
    assert total.confirmed > 0


def test_queues_that_begin_with_all_their_copies_break_no_promise() -> None:
    founded = 0
    for seed in range(20):
        founded += simulate(seed, is_declared_late=True).world.witness.founded_together
    assert founded > 10, "most of them find all nodes"
