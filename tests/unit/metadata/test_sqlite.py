"""The SQLite engine where it is more than the contract: batches, bounds, waiting its turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from metadata_disks import HeldFile, reopened
from metadata_reading import Told, contents, read
from warren.metadata.backlog import BATCH_TRANSACTIONS_MAX
from warren.metadata.sqlite import SUBMISSIONS_MAX, SqliteStore
from warren.metadata.store import Check, Delete, MetadataUnavailable, Put
from warren.metadata.watchers import WATCHERS_MAX


async def test_those_who_wait_share_one_commit(held: tuple[SqliteStore, HeldFile]) -> None:
    store, file = held
    first = asyncio.ensure_future(store.transact([], [Put("first", b"")]))
    await asyncio.sleep(0.01)
    rest = [asyncio.ensure_future(store.transact([], [Put(f"{i}", b"")])) for i in range(100)]
    await asyncio.sleep(0.01)
    file.free.set()
    assert all(await asyncio.gather(first, *rest))
    assert file.writes == [1, 100]


async def test_members_of_a_batch_see_those_before_them(held: tuple[SqliteStore, HeldFile]) -> None:
    store, file = held
    calls = [
        asyncio.ensure_future(store.transact([Check("a", 0)], [Put("a", b"1")])),
        asyncio.ensure_future(store.transact([Check("a", 0)], [Put("b", b"1")])),
        asyncio.ensure_future(store.transact([], [Delete("a")])),
        asyncio.ensure_future(store.transact([Check("a", 0)], [Put("c", b"1")])),
    ]
    await asyncio.sleep(0)
    file.free.set()
    assert await asyncio.gather(*calls) == [True, False, True, True]
    assert await contents(store) == {"c": b"1"}
    assert file.writes == [1], "what came and went within a batch never reached the disk"


async def test_a_batch_has_a_bound(held: tuple[SqliteStore, HeldFile]) -> None:
    store, file = held
    count = BATCH_TRANSACTIONS_MAX + 10
    calls = [asyncio.ensure_future(store.transact([], [Put(f"{i}", b"")])) for i in range(count)]
    await asyncio.sleep(0)
    file.free.set()
    await asyncio.gather(*calls)
    assert file.writes == [BATCH_TRANSACTIONS_MAX, 10]


async def test_the_queue_has_a_bound_and_the_rest_waits_in_order(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    told = Told()
    store.watch(told)
    count = SUBMISSIONS_MAX + 50
    calls = [asyncio.ensure_future(store.transact([], [Put("a", b"%d" % i)])) for i in range(count)]
    await asyncio.sleep(0.01)
    assert store.submissions == SUBMISSIONS_MAX
    file.free.set()
    await asyncio.gather(*calls)
    assert told.calls == [[("a", b"%d" % i)] for i in range(count)]
    assert store.submissions == 0


async def test_who_is_cancelled_outside_leaves_no_trace(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    calls = [
        asyncio.ensure_future(store.transact([], [Put("a", b"%d" % i)]))
        for i in range(SUBMISSIONS_MAX)
    ]
    outside = asyncio.ensure_future(store.transact([], [Put("b", b"1")]))
    await asyncio.sleep(0.01)
    outside.cancel()
    file.free.set()
    await asyncio.gather(*calls)
    file.free.clear()
    stuck = asyncio.ensure_future(store.transact([], [Put("c", b"1")]))
    lease = await store.grant_lease(60)
    put = store.transact([Check("b", 0)], [Put("b", b"2", lease)])
    assert await asyncio.wait_for(put, 60), "nobody is thought to be at work on that key"
    file.free.set()
    assert await stuck


async def test_nothing_is_shown_or_told_before_it_is_durable(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    told = Told()
    store.watch(told)
    call = asyncio.ensure_future(store.transact([], [Put("a", b"1")]))
    await asyncio.sleep(0.02)
    assert not call.done()
    assert await store.get("a") is None
    assert told.calls == []
    file.free.set()
    assert await call


async def test_a_stuck_disk_stops_neither_reads_nor_leased_keys(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    lease = await store.grant_lease(60)
    stuck = asyncio.ensure_future(store.transact([], [Put("durable", b"1")]))
    await asyncio.sleep(0.01)
    assert await store.transact([Check("q", 0)], [Put("q", b"1", lease)])
    assert await store.transact([], [Delete("q"), Put("r", b"1", lease)])
    assert await contents(store) == {"r": b"1"}
    behind = asyncio.ensure_future(store.transact([Check("durable", 0)], [Put("s", b"1", lease)]))
    await asyncio.sleep(0.01)
    assert not stuck.done()
    assert not behind.done(), "it shares a key with one before it"
    file.free.set()
    assert [await stuck, await behind] == [True, False]


async def test_leased_writes_wait_behind_the_end_of_a_lease(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    ending, living = await store.grant_lease(60), await store.grant_lease(60)
    await store.transact([], [Put("a", b"1", ending)])
    stuck = asyncio.ensure_future(store.transact([], [Put("durable", b"1")]))
    await asyncio.sleep(0.01)
    ended = asyncio.ensure_future(store.revoke(ending))
    await asyncio.sleep(0.01)
    anew = asyncio.ensure_future(store.transact([Check("a", 0)], [Put("a", b"2", living)]))
    await asyncio.sleep(0.01)
    file.free.set()
    await asyncio.gather(stuck, ended)
    assert await anew
    assert (await read(store, "a")).value == b"2"


async def test_a_call_cancelled_in_the_queue_never_happens(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    first = asyncio.ensure_future(store.transact([], [Put("a", b"1")]))
    await asyncio.sleep(0.01)
    second = asyncio.ensure_future(store.transact([], [Put("b", b"1")]))
    await asyncio.sleep(0.01)
    first.cancel()
    second.cancel()
    await asyncio.sleep(0)
    file.free.set()
    assert await store.transact([], [Put("c", b"1")])
    assert await contents(store) == {"a": b"1", "c": b"1"}, "only the first was being written"


async def test_watchers_have_a_bound(path: Path) -> None:
    store = SqliteStore(path)
    for _ in range(WATCHERS_MAX):
        store.watch(Told())
    with pytest.raises(MetadataUnavailable, match=str(WATCHERS_MAX)):
        store.watch(Told())


async def test_leased_keys_are_not_on_the_disk(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    lease = await store.grant_lease(60)
    await store.transact([], [Put("a", b"1", lease), Put("b", b"1"), Put("c", b"1")])
    await store.transact([], [Put("c", b"2", lease)])
    await store.close()
    assert await reopened(path) == {"b": b"1"}
