"""The SQLite engine where it is more than the contract: batches, failures, waiting its turn."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from metadata_reading import Told, contents, read
from warren.metadata.backlog import BATCH_TRANSACTIONS_MAX
from warren.metadata.sqlite import SUBMISSIONS_MAX, WATCHERS_MAX, SqliteStore
from warren.metadata.sqlite_file import MetadataFile
from warren.metadata.store import Check, Delete, MetadataUnavailable, Put, Record


class HeldFile(MetadataFile):
    """A disk that takes its time: writes wait until `free` is set. Remembers what it wrote."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.free = threading.Event()
        self.is_broken = False
        self.writes: list[int] = []

    def write(self, puts: Sequence[Record], deletes: Sequence[str], revision: int) -> None:
        assert self.free.wait(30)
        if self.is_broken:
            raise MetadataUnavailable("disk I/O error")
        super().write(puts, deletes, revision)
        self.writes.append(len(puts) + len(deletes))


class LyingFile(MetadataFile):
    """The worst kind of failure: reported, yet all of it is on the disk."""

    is_lying = False

    def write(self, puts: Sequence[Record], deletes: Sequence[str], revision: int) -> None:
        super().write(puts, deletes, revision)
        if self.is_lying:
            self.close()
            raise MetadataUnavailable("disk I/O error")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


@pytest.fixture
async def held(path: Path) -> AsyncIterator[tuple[SqliteStore, HeldFile]]:
    """A store whose disk is stuck until the test frees it."""
    store = SqliteStore(path)
    file = store._file = HeldFile(path)
    await store.open()
    yield store, file
    file.free.set()
    await store.close()


@contextmanager
def no_file_may_grow_beyond(size_bytes: int) -> Iterator[None]:
    """A real failure of real writes, as a quota or a full disk makes them fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def reopened(path: Path) -> dict[str, bytes]:
    store = SqliteStore(path)
    await store.open()
    found = await contents(store)
    await store.close()
    return found


async def abandon(store: SqliteStore) -> None:
    """Let go of the file as a crash does: without waiting for anything or mending it."""
    await asyncio.get_running_loop().run_in_executor(store._writer, store._file.close)
    store._let_go()


# Batches.


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
    assert await asyncio.wait_for(put, 5), "nobody is thought to be at work on that key"
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


# Failures.


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
    results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
    assert {type(result) for result in results} == {MetadataUnavailable}
    store._let_go()


# The rest.


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
