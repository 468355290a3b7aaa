"""Short runs of the tool, with seeds of their own: `scripts/chaos` runs it for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
SEED = 7
CANNOT_RUN = 77


def run(directory: Path, rounds: int, *options: str) -> None:
    command = [
        sys.executable, "-m", "cluster_chaos", "--seed", str(SEED), "--rounds", str(rounds),
        "--slow", "--keep", str(directory), *options,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=TESTS, check=False, capture_output=True, text=True)
    if done.returncode == CANNOT_RUN:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"seed {SEED}: {rounds} rounds, nothing broken" in done.stdout


@pytest.mark.timeout(600)
def test_a_cluster_that_is_hurt_keeps_its_word(tmp_path: Path) -> None:
    """Nodes are killed, paused and cut off; then etcd's members are restarted one by one."""
    run(tmp_path, 2, "--round", "6")


@pytest.mark.timeout(900)
def test_mirrored_queues_that_are_hurt_lose_nothing(tmp_path: Path) -> None:
    """7-10, 7-11: a master killed, nodes without etcd's majority, a full disk; under load."""
    run(tmp_path, 3, "--round", "3", "--mirrored", "--only", "kill,halves,disk-full")
