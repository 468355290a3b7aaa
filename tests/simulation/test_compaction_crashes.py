"""The power goes before each change of the disk in turn, while a store deletes and compacts.

What must hold afterwards (S9): every message whose batch was done and that nobody acknowledged is
there, with its body; no message is there twice; and when all are acknowledged, nothing is left.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from store_world import StoreWorld

MESSAGES = 24
BODY_BYTES = 700


def garbage_maker(world: StoreWorld, dice: random.Random) -> None:
    """Several files, of which most is acknowledged in some order, with checkpoints in between."""
    names: list[int] = []
    for number in range(MESSAGES):
        names += world.publish(dice.randbytes(BODY_BYTES), queues=dice.randint(1, 3))
        if number % 3 == 2:
            world.commit(checkpoint=number % 9 == 8)
            world.settle()
    world.commit()
    dice.shuffle(names)
    survivors = names[: len(names) // 4]
    for count, name in enumerate(names[len(survivors) :]):
        world.ack(name)
        if count % 8 == 7:
            world.commit(checkpoint=count % 24 == 23)
            world.settle()
    world.commit()
    world.settle()
    for name in survivors[::2]:
        world.ack(name)
    world.commit()
    world.settle()


def run_until_crash(directory: Path, disk: FaultyDisk, seed: int) -> StoreWorld:
    world = StoreWorld(directory, disk)
    try:
        world.open()
        garbage_maker(world, random.Random(seed))
    except OSError:
        assert disk.is_crashed
    return world


def count_changes(directory: Path, seed: int) -> int:
    disk = FaultyDisk(seed)
    world = run_until_crash(directory, disk, seed)
    world.workers.abandon()
    assert world.store.counters.compactions, "the scenario compacts"
    assert world.store.counters.files_deleted
    return len(disk.changes)


@pytest.mark.parametrize("seed", range(3))
def test_the_power_may_go_before_any_change(tmp_path: Path, seed: int) -> None:
    changes = count_changes(tmp_path / "whole", seed)
    for change in range(changes):
        directory = tmp_path / str(change)
        disk = FaultyDisk(seed)
        disk.crash_before(change)
        world = run_until_crash(directory, disk, seed)
        assert disk.is_crashed
        world.crash(random.Random(seed))
        after = world.reopened()
        after.settle()
        after.check()
        after.check_that_nothing_stays()
