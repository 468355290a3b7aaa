"""1-22: groups live through whatever can happen to them, and I1 to I13 hold throughout.

A failure names its seed; `scripts/simulate --scenario multicast --seed SEED --runs 1` repeats it.
"""

from __future__ import annotations

import pytest

from gm_scenario import Scenario
from gm_world import STEPS_MAX, World

RUNS = 200
CHUNKS = 8


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_1_22_random_lives_of_groups_break_no_invariant(chunk: int) -> None:
    settled = 0
    for seed in range(chunk, RUNS, CHUNKS):
        settled += Scenario(seed).run().witness.settled
    assert settled > RUNS // CHUNKS


MESSAGES = 10_000
BATCH = 20


@pytest.mark.parametrize("position", range(5))
def test_1_12_a_death_at_any_position_of_a_busy_ring_leaves_no_gap(position: int) -> None:
    """All five talk; the one that dies may be any, the leader, too. What one does not say any more,
    the others do, so that all the messages flow.
    """
    world = World(seed=position)
    world.grow(5)
    record = world.store.value
    assert record is not None
    victim = world.peers[record.members[position].id]
    said = 0
    while said < MESSAGES:
        speakers = [p for p in world.members if p.machine.has_room()]
        if speakers:
            world.random.choice(speakers).broadcast(BATCH)
            said += BATCH
        if victim.is_alive and said >= MESSAGES // 2:
            world.kill(victim)
        world.schedule.run(STEPS_MAX, world.schedule.now_us + 1_000)
    world.settle()
    world.witness.at_rest()
    survivors = world.members
    assert len(survivors) == 4
    assert all(victim.id in peer.journal.dead for peer in survivors)
    heard = [sum(map(len, peer.journal.heard.values())) for peer in survivors]
    assert min(heard) > MESSAGES * 3 // 4
