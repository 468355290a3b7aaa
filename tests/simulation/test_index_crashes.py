"""The power goes at any moment of an index's life, again and again; what was promised is there.

Each seed is a history of several lives of publishing, acknowledging, purging, deleting, reading,
rolling journals, copying to segments and writing checkpoints; each ends with a power cut before
some change of the disk, with the end of the process alone, or with a stop.
`WARREN_SEEDS=5000 pytest ...` explores more of them.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from index_simulation import IndexSimulation, PowerCut

SEEDS = int(os.environ.get("WARREN_SEEDS", "60"))
FIRST_SEED = int(os.environ.get("WARREN_FIRST_SEED", "0"))


def live(simulation: IndexSimulation, dice: random.Random, faults: bool) -> None:
    """One life, until the power goes or the node is killed or stopped."""
    disk = FaultyDisk(dice.getrandbits(32))
    if simulation.lives and not simulation.disk.is_crashed:
        disk = simulation.disk  # which still has things to lose
        disk.mend()
    if dice.random() < 0.7:
        changes = dice.choice((dice.randrange(40), dice.randrange(400)))
        disk.crash_before(len(disk.changes) + changes)
    try:
        simulation.begin(disk)
        for _ in range(dice.choice((20, 100, 300))):
            simulation.act()
            if faults and dice.random() < 0.02:
                fail_somewhere(disk, dice)
        way = dice.random()
        if way < 0.3:
            simulation.kill()
            return
        if way < 0.65:
            simulation.settle()
        simulation.stop()
    except PowerCut:
        simulation.crash()


def fail_somewhere(disk: FaultyDisk, dice: random.Random) -> None:
    operation = dice.choice(("append", "place", "sync", "open", "sync_directory", "rename"))
    code = dice.choice((errno.EIO, errno.ENOSPC))
    disk.fail(operation, code, on=dice.choice((".jif", ".idx", "draft", "")))


def explore(directory: Path, seed: int, *, faults: bool) -> None:
    dice = random.Random(seed)
    simulation = IndexSimulation(directory, seed)
    try:
        for _ in range(4):
            live(simulation, dice, faults)
        if not simulation.disk.is_crashed:
            simulation.crash()
        simulation.begin(FaultyDisk(seed))
        simulation.settle()
        simulation.crash()
    except BaseException:
        print(f"seed {seed}, life {simulation.lives}, changes {simulation.changes}")
        raise


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_counts_of_a_checkpoint_are_those_of_a_scan(tmp_path: Path, seed: int) -> None:
    """A stopped index is opened with its checkpoint and, a copy of it, without."""
    dice = random.Random(seed)
    simulation = IndexSimulation(tmp_path / "data", seed)
    simulation.begin(FaultyDisk(seed))
    for _ in range(200):
        simulation.act()
    simulation.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "copy" / "checkpoint").unlink()
    found = []
    for name in ("data", "copy"):
        simulation.directory = tmp_path / name
        disk = FaultyDisk(dice.getrandbits(32))
        recovered = simulation.begin(disk)
        found.append(
            {
                name: [queue.count, [s.count for s in queue.segments], len(queue.journaled)]
                for name, queue in recovered.items()
                if queue.count
            }
        )
        simulation.crash()
    assert found[0] == found[1], f"seed {seed}"


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_what_was_promised_survives_power_cuts(tmp_path: Path, seed: int) -> None:
    explore(tmp_path / "data", seed, faults=False)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_and_disks_that_fail_now_and_then(tmp_path: Path, seed: int) -> None:
    explore(tmp_path / "data", seed, faults=True)
