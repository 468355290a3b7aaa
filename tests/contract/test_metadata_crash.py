"""SIGKILL at random instants: what was acknowledged is there, and nothing is there in half."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import metadata_victim
from metadata_victim import WORKERS
from warren.metadata.sqlite import SqliteStore

VICTIM = Path(metadata_victim.__file__)
KILLS = 30
KILLS_OF_FIRST_STARTS = 10
OPEN_MS_MAX = 60_000
KILLS_MAX = 200
WORKED_MIN = 10


def run_and_kill(path: Path, first_step: int, delay_s: float, wait: bool) -> dict[int, int]:
    """The last acknowledged step of each worker that got that far."""
    command = [sys.executable, str(VICTIM), str(path), str(first_step)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as victim:
        assert victim.stdout is not None
        if wait:
            assert victim.stdout.read(5) == b"open\n"
        time.sleep(delay_s)
        assert victim.poll() is None, "died before it was killed"
        victim.kill()
        lines = victim.stdout.read().split(b"\n")
    whole = [line.split() for line in lines[:-1] if line != b"open"]
    return {int(worker): int(step) for worker, step in whole}


async def surviving(path: Path) -> dict[str, int]:
    store = SqliteStore(path)
    started = time.monotonic()
    await store.open()
    assert (time.monotonic() - started) * 1000 < OPEN_MS_MAX
    found = {record.key: int(record.value) for record in await store.range("")}
    await store.close()
    return found


def last_step(found: dict[str, int], worker: int) -> int:
    """The step a worker's keys are at, having made sure that they are all at the same."""
    a, b = found.get(f"{worker}/a"), found.get(f"{worker}/b")
    deleted = found.get(f"{worker}/deleted", 0)
    assert a == b, f"half of a transaction of worker {worker}: {found}"
    assert a is None or a > deleted, f"half of a deletion by worker {worker}: {found}"
    return deleted if a is None else a


def verify(found: dict[str, int], acknowledged: dict[int, int], before: list[int]) -> list[int]:
    """At most the one transaction in flight may have happened without having been promised."""
    after = [last_step(found, worker) for worker in range(WORKERS)]
    first = max(before) + 1
    for worker, step in enumerate(after):
        promised = acknowledged.get(worker)
        possible = {before[worker], first} if promised is None else {promised, promised + 1}
        assert step in possible, f"worker {worker} is at {step}, not in {possible}"
    return after


@pytest.mark.timeout(600)
async def test_whatever_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """One store, killed again and again while eight workers write to it."""
    dice = random.Random(20)
    path = tmp_path / "metadata.db"
    steps = [0] * WORKERS
    kills = 0
    while kills < KILLS or (min(steps) <= WORKED_MIN and kills < KILLS_MAX):
        kills += 1
        delay_s = dice.uniform(0, 0.08)
        first = max(steps) + 1
        acknowledged = await asyncio.to_thread(run_and_kill, path, first, delay_s, True)
        steps = verify(await surviving(path), acknowledged, steps)
    assert min(steps) > WORKED_MIN, "the victims did work"


@pytest.mark.timeout(600)
async def test_a_first_start_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    """Also while the file is being made: the next start makes it or takes it over."""
    dice = random.Random(21)
    for attempt in range(KILLS_OF_FIRST_STARTS):
        (tmp_path / str(attempt)).mkdir()
        path = tmp_path / str(attempt) / "metadata.db"
        delay_s = dice.uniform(0.1, 0.3)
        acknowledged = await asyncio.to_thread(run_and_kill, path, 1, delay_s, False)
        verify(await surviving(path), acknowledged, [0] * WORKERS)
