"""A process that declares, binds and deletes without end, to be killed.

    python topology_victim.py DIRECTORY SEED ROUND

Each worker keeps to names of its own. It writes down what it is about to do, and that it is done:
`try WORKER OPERATION` and `done WORKER`, a line each.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from broker_world import BrokerWorld
from topology_model import TopologyModel, perform
from warren.broker.vhost import VirtualHost

WORKERS = 6


async def work(vhost: VirtualHost, worker: str, dice: random.Random) -> None:
    model = TopologyModel()
    while True:
        operation = model.choose(dice, worker)
        say(f"try {worker} {json.dumps(operation)}")
        await perform(vhost, operation)
        say(f"done {worker}")
        model.apply(operation)


def say(line: str) -> None:
    """In one write, past every buffer of ours: a killed process must not take it along."""
    os.write(1, f"{line}\n".encode())


async def main(directory: str, seed: str, round_: str) -> None:
    async with BrokerWorld(Path(directory)) as world:
        say("open")
        dice = [random.Random(f"{seed} {round_} {number}") for number in range(WORKERS)]
        workers = (work(world.vhost, f"r{round_}w{n}-", dice[n]) for n in range(WORKERS))
        await asyncio.gather(*workers)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
