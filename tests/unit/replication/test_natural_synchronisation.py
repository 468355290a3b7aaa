"""Mirrors that become synchronised because what they lack goes: by expiry, here (5-02)."""

from __future__ import annotations

import pytest

from replica_world import ReplicaWorld, message


def expire(world: ReplicaWorld, count: int) -> None:
    """The head goes without having been delivered."""
    for _ in range(count):
        assert world.master.fetch(False) is not None


@pytest.mark.parametrize(("unknown", "known"), [(3, 0), (3, 4), (1, 1)])
def test_5_02_when_all_that_a_mirror_lacks_has_expired_it_is_synchronised(
    unknown: int, known: int
) -> None:
    world = ReplicaWorld()
    for number in range(unknown):
        world.master.publish(message(number), 1, None, 0)
    world.join("b")
    for number in range(known):
        world.master.publish(message(unknown + number), 1, None, 0)
    world.deliver()
    expire(world, unknown - 1)
    assert world.complete == []
    expire(world, 1)
    assert world.complete == ["b"]
    world.deliver()
    assert world.mirrors["b"].depth == known


def test_5_02_one_that_knows_all_stays_synchronised_while_they_expire() -> None:
    world = ReplicaWorld()
    world.join("b")
    assert world.complete == ["b"]
    for number in range(3):
        world.master.publish(message(number), 1, None, 0)
    world.deliver()
    expire(world, 3)
    world.deliver()
    assert world.complete == ["b"]
    assert world.mirrors["b"].depth == 0
