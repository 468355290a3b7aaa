"""SIGKILL while clients declare, bind and delete: what was answered stands, nothing is in half."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path

import topology_victim
from broker_world import BrokerWorld
from topology_model import Operation, TopologyModel, model_of, plain_binding
from warren.metadata.codec import decode_binding
from warren.metadata.sqlite import SqliteStore

VICTIM = Path(topology_victim.__file__)
ROUNDS = 12
SEED = 7


def run_and_kill(directory: Path, round_: int, delay_s: float) -> list[str]:
    command = [sys.executable, str(VICTIM), str(directory), str(SEED), str(round_)]
    environment = {**os.environ, "PYTHONPATH": str(VICTIM.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"open\n"
        time.sleep(delay_s)
        assert victim.poll() is None, "died before it was killed"
        victim.kill()
        lines = victim.stdout.read().decode().split("\n")
    return lines[:-1]  # the last one may have been cut off


def possible_models(lines: list[str]) -> dict[str, tuple[TopologyModel, TopologyModel]]:
    """Per worker: without and with the operation that was under way."""
    certain: dict[str, TopologyModel] = {}
    tried: dict[str, Operation] = {}
    for line in lines:
        kind, worker, *rest = line.split(" ", 2)
        if kind == "try":
            tried[worker] = json.loads(rest[0])
        else:
            certain.setdefault(worker, TopologyModel()).apply(tried.pop(worker))
    possible = {}
    for worker in certain.keys() | tried.keys():
        without = certain.get(worker, TopologyModel())
        with_it = deepcopy(without)
        if worker in tried:
            with_it.apply(tried[worker])
        possible[worker] = without, with_it
    return possible


def part_of(model: TopologyModel, worker: str) -> TopologyModel:
    return TopologyModel(
        {name for name in model.exchanges if worker in name},
        {name for name in model.queues if worker in name},
        {each for each in model.bindings if worker in each[1]},
    )


async def require_nothing_in_half(directory: Path) -> None:
    """In the file itself, before a broker could have cleared anything away."""
    store = SqliteStore(directory / "metadata.db")
    await store.open()
    keys = {record.key for record in await store.range("")}
    for record in await store.range("binding/"):
        source, destination, _ = plain_binding(decode_binding(record.value))
        kind = "exchange" if destination.startswith("x:") else "queue"
        end = f"{kind}/%2F/{destination.removeprefix('x:')}"
        assert source == "amq.topic" or f"exchange/%2F/{source}" in keys, record.key
        assert end in keys, record.key
    await store.close()


async def test_whatever_was_answered_survives_a_kill(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    found: dict[str, TopologyModel] = {}
    done = 0
    for round_ in range(ROUNDS):
        lines = await asyncio.to_thread(run_and_kill, tmp_path, round_, dice.uniform(0, 0.15))
        done += sum(line.startswith("done") for line in lines)
        await require_nothing_in_half(tmp_path)
        async with BrokerWorld(tmp_path) as world:
            survived = model_of(world.vhost)
        for worker, before in found.items():
            assert part_of(survived, worker) == before, "an earlier round has changed"
        for worker, possible in possible_models(lines).items():
            found[worker] = part_of(survived, worker)
            assert found[worker] in possible
    assert done > 100, "the victims did work"
