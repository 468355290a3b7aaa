"""The store with real threads, the real commit thread and an event loop, under a mixed load."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store_world import make_message, make_queued
from warren.server.workers import LoopWorkers
from warren.storage.bodies.message_store import MessageStore
from warren.storage.disk.committer import Batch, Committer, make_committer
from warren.storage.disk.files import RealDisk
from warren.wire.codec import Message, QueuedMessage

ROUNDS = 150
FILE_BYTES = 65_536


class Load:
    """Publishes, acknowledges in any order, and reads what should be there."""

    def __init__(self, store: MessageStore, committer: Committer) -> None:
        self.store = store
        self.dice = random.Random(5)
        self.alive: dict[QueuedMessage, bytes] = {}
        self._committer = committer

    async def round(self) -> None:
        dice = self.dice
        fresh = [
            make_queued(make_message(dice.randbytes(dice.randint(10, 6_000)))) for _ in "12345"
        ]
        for queued in fresh:
            self.alive[queued] = queued.message.body
            self.store.write(queued)
        writes, syncs = self.store.take_writes()
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self._committer.submit(Batch(list(writes), syncs), done.set_result)
        for queued in dice.sample(list(self.alive), len(self.alive) // 8):
            del self.alive[queued]
            self.store.died(queued.store_file, queued.store_offset, queued.size)
        await self.read(10)
        error = await done
        assert error is None
        self.store.batch_done(None)

    async def read(self, count: int) -> None:
        wanted = self.dice.sample(list(self.alive), min(count, len(self.alive)))
        places = [(queued.store_file, queued.store_offset, queued.size) for queued in wanted]
        for queued, found in zip(wanted, await self.store.read_many(places), strict=True):
            assert isinstance(found, Message), found
            if queued in self.alive:
                assert found.body == self.alive[queued]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MessageStore]:
    workers = LoopWorkers()
    store = MessageStore(tmp_path / "store", RealDisk(), workers, salt=9)
    store.file_bytes = FILE_BYTES
    await store.open()
    await store.recovered()
    store.begin_chores()
    yield store
    await store.close()
    workers.close()


async def test_everything_at_once(store: MessageStore) -> None:
    committer = make_committer(RealDisk(), asyncio.get_running_loop())
    load = Load(store, committer)
    for _ in range(ROUNDS):
        await load.round()
    await load.read(len(load.alive))
    await committer.close()
    assert store.counters.compactions > 3
    assert store.counters.files_deleted > 10
    assert store.counters.records_corrupt == 0
