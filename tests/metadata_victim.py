"""Writes to a metadata store as fast as it can, saying what was acknowledged, until it is killed.

Each worker owns a pair of keys and moves it through numbered steps: both keys get the number, or,
every fifth step, both are deleted and a third one gets it. What was acknowledged goes to stdout,
unbuffered, one line "worker step" each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import Delete, MetadataStore, Operation, Put

WORKERS = 8
DELETE_EVERY = 5


def step_changes(worker: int, step: int) -> list[Operation]:
    value = b"%d" % step
    if step % DELETE_EVERY == 0:
        gone = Delete(f"{worker}/a"), Delete(f"{worker}/b")
        return [*gone, Put(f"{worker}/deleted", value)]
    return [Put(f"{worker}/a", value), Put(f"{worker}/b", value)]


async def work(store: MetadataStore, worker: int, step: int) -> None:
    while await store.transact([], step_changes(worker, step)):
        os.write(sys.stdout.fileno(), b"%d %d\n" % (worker, step))
        step += 1


async def main(path: Path, first_step: int) -> None:
    store = SqliteStore(path)
    await store.open()
    os.write(sys.stdout.fileno(), b"open\n")
    await asyncio.gather(*(work(store, worker, first_step) for worker in range(WORKERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
