"""3-12: of six nodes four are killed, two and two, while a survivor publishes."""

from __future__ import annotations

import pytest

from cluster_simulation.world import World


@pytest.mark.parametrize("seed", range(5))
def test_3_12_a_queue_outlives_its_master_and_those_that_were_to_follow(seed: int) -> None:
    world = World(seed, nodes=6)
    publisher = world.nodes["f"]
    is_publishing = True

    def publish() -> None:
        if is_publishing and publisher.process is not None:
            publisher.process.client.publish()

    world.start()
    world.every(5_000, publish)
    world.run(1_000_000)
    record = world.record
    assert record is not None
    assert len(record.insync) == 6
    for pair in ("ab", "cd"):
        for name in pair:
            world.nodes[name].kill()
        world.run(50_000)
    is_publishing = False
    for _ in range(200):
        if publisher.process is not None and not publisher.process.client.unanswered:
            break
        world.run(100_000)
    assert world.witness.confirmed == set(range(1, world.published + 1))
    assert world.witness.promotions > 0
    world.make_peace()
    world.come_to_rest()
    world.witness.reckon()
