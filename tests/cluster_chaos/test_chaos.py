"""A short run of the tool, with a seed of its own: `scripts/chaos` runs it for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
SEED = 7
ROUNDS = 2
CANNOT_RUN = 77


@pytest.mark.timeout(600)
def test_a_cluster_that_is_hurt_keeps_its_word(tmp_path: Path) -> None:
    """Nodes are killed, paused and cut off; then etcd's members are restarted one by one."""
    command = [
        sys.executable, "-m", "cluster_chaos", "--seed", str(SEED),
        "--rounds", str(ROUNDS), "--round", "6", "--slow", "--keep", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=TESTS, check=False, capture_output=True, text=True)
    if done.returncode == CANNOT_RUN:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"seed {SEED}: {ROUNDS} rounds, nothing broken" in done.stdout
