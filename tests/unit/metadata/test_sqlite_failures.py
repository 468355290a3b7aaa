"""What the SQLite engine does when its disk does not do what it should."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from metadata_disks import HeldFile, LyingFile, abandon, no_file_may_grow_beyond, reopened
from metadata_reading import Told, read
from warren.metadata.backlog import BATCH_TRANSACTIONS_MAX
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import Check, Delete, MetadataUnavailable, Put


async def test_a_failed_write_changes_nothing_and_says_why(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.transact([], [Put("a", b"1")])
    before = await read(store, "a")
    told = Told()
    store.watch(told)
    with no_file_may_grow_beyond(16_384):
        with pytest.raises(MetadataUnavailable, match=r"cannot write .*metadata\.db: disk"):
            await store.transact([], [Put("a", b"2"), Put("b", b"x" * 500_000)])
        with pytest.raises(MetadataUnavailable):
            await store.transact([], [Put("c", b"x" * 500_000)])
        assert await store.range("") == [before]
        assert told.calls == []
    assert await store.transact([Check("a", before.version)], [Put("a", b"3")]), "it recovers"
    await store.close()
    assert await reopened(path) == {"a": b"3"}


async def test_a_full_disk_does_not_end_leased_keys(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    lease = await store.grant_lease(60)
    with no_file_may_grow_beyond(1_024):
        with pytest.raises(MetadataUnavailable):
            await store.transact([], [Put("a", b"1")])
        assert await store.transact([], [Put("q", b"1", lease)])
        await store.revoke(lease)
        assert await store.range("") == []
    await store.close()


async def test_a_lease_ends_whatever_happens_to_its_neighbours_in_the_queue(
    held: tuple[SqliteStore, HeldFile],
) -> None:
    store, file = held
    file.is_broken = True
    lease = await store.grant_lease(60)
    await store.transact([], [Put("q", b"1", lease)])
    first = asyncio.ensure_future(store.transact([], [Put("a", b"1")]))
    await asyncio.sleep(0.01)
    second = asyncio.ensure_future(store.transact([], [Put("b", b"1")]))
    await asyncio.sleep(0)
    ended = asyncio.ensure_future(store.revoke(lease))
    await asyncio.sleep(0)
    file.free.set()
    results = await asyncio.gather(first, second, ended, return_exceptions=True)
    assert [type(result) for result in results[:2]] == [MetadataUnavailable] * 2
    assert results[2] is None
    assert await store.range("") == []
    file.is_broken = False


async def test_a_process_that_dies_of_a_full_disk_left_the_old_state(path: Path) -> None:
    """Nothing is mended here: the file is taken away from a store that could not write it."""
    store = SqliteStore(path)
    await store.open()
    await store.transact([], [Put("a", b"1")])
    with no_file_may_grow_beyond(16_384):
        with pytest.raises(MetadataUnavailable):
            await store.transact([], [Put("a", b"2"), Put("b", b"x" * 500_000)])
        await abandon(store)
    assert await reopened(path) == {"a": b"1"}


async def test_all_of_a_failed_batch_fails(path: Path) -> None:
    """Who got False might have got it for a neighbour's sake, and the neighbour did not happen."""
    store = SqliteStore(path)
    await store.open()
    with no_file_may_grow_beyond(1_024):
        calls = [store.transact([Check("a", 0)], [Put("a", b"1")]) for _ in range(3)]
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [MetadataUnavailable] * 3
    assert await store.transact([Check("a", 0)], [Put("a", b"1")])
    await store.close()


@pytest.mark.parametrize("how", ["another write", "close"])
async def test_what_was_called_failed_does_not_come_back(path: Path, how: str) -> None:
    store = SqliteStore(path)
    file = store._file = LyingFile(path)
    await store.open()
    await store.transact([], [Put("a", b"1"), Put("b", b"1")])
    file.is_lying = True
    with pytest.raises(MetadataUnavailable):
        await store.transact([], [Put("a", b"2"), Delete("b"), Put("c", b"2")])
    file.is_lying = False
    if how == "another write":
        await store.transact([], [Put("d", b"3")])
        await abandon(store)
        assert await reopened(path) == {"a": b"1", "b": b"1", "d": b"3"}
    else:
        await store.close()
        assert await reopened(path) == {"a": b"1", "b": b"1"}


async def test_a_writer_that_breaks_leaves_nobody_waiting(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    store._writer.shutdown()
    calls = [store.transact([], [Put(f"{i}", b"")]) for i in range(BATCH_TRANSACTIONS_MAX + 1)]
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    assert {type(result) for result in results} == {MetadataUnavailable}
    store._let_go()
