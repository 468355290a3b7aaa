"""What `warren.metadata.store` promises of watches and leases, asked of every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from metadata_engines import MakeStore
from metadata_reading import Told, contents, read
from warren.metadata.store import (
    Change,
    Check,
    Delete,
    LeaseLost,
    MetadataStore,
    Put,
)

# Watches.


async def test_watchers_are_told_before_the_caller(store: MetadataStore) -> None:
    told = Told()
    store.watch(told)
    await store.transact([], [Put("b", b"1"), Put("a", b"1")])
    assert told.calls == [[("b", b"1"), ("a", b"1")]], "in the order given"
    await store.transact([], [Delete("b"), Put("a", b"2")])
    assert told.calls[1:] == [[("b", None), ("a", b"2")]]


async def test_a_watch_shows_nothing_older_than_itself(store: MetadataStore) -> None:
    await store.transact([], [Put("a", b"1")])
    told = Told()
    store.watch(told)
    await store.transact([], [Put("b", b"1")])
    assert told.calls == [[("b", b"1")]]


async def test_deleting_what_is_not_there_is_no_change(store: MetadataStore) -> None:
    told = Told()
    store.watch(told)
    assert await store.transact([], [Delete("a")])
    assert await store.transact([], [Delete("a"), Put("b", b"1")])
    assert told.calls == [[("b", b"1")]]


async def test_a_callback_tells_the_record_that_a_read_shows(store: MetadataStore) -> None:
    told: list[Change] = []
    store.watch(told.extend)
    await store.transact([], [Put("a", b"1")])
    assert told == [Change("a", await store.get("a"))]


async def test_no_call_comes_after_cancelling(store: MetadataStore) -> None:
    first, second = Told(), Told()
    cancel = store.watch(first)
    store.watch(second)
    await store.transact([], [Put("a", b"1")])
    cancel()
    cancel()
    await store.transact([], [Put("a", b"2")])
    assert len(first.calls) == 1
    assert len(second.calls) == 2


async def test_a_watcher_may_cancel_another_while_it_is_told(store: MetadataStore) -> None:
    second = Told()
    cancels: list[Callable[[], None]] = []
    store.watch(lambda _: cancels[0]())
    cancels.append(store.watch(second))
    await store.transact([], [Put("a", b"1")])
    assert second.calls == []


async def test_a_watcher_that_raises_is_reported_and_harms_nobody_else(
    store: MetadataStore,
) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, c: faults.append(c["exception"]))
    fault = RuntimeError("a fault in a watcher")

    def fail(_: Sequence[Change]) -> None:
        raise fault

    told = Told()
    store.watch(fail)
    store.watch(told)
    assert await store.transact([], [Put("a", b"1")])
    assert await store.transact([], [Put("a", b"2")])
    assert told.calls == [[("a", b"1")], [("a", b"2")]]
    assert faults == [fault], "once: it is told nothing more"


async def test_a_watched_copy_equals_the_store(store: MetadataStore) -> None:
    """Watch first, read then: the way everything that follows the store does it."""
    copy: dict[str, bytes] = {}

    def follow(changes: Sequence[Change]) -> None:
        for change in changes:
            if change.record is None:
                copy.pop(change.key)
            else:
                copy[change.key] = change.record.value

    store.watch(follow)
    calls = [store.transact([], [Put(f"{i % 7}", b"%d" % i)]) for i in range(60)]
    calls += [store.transact([], [Delete(f"{i}")]) for i in range(0, 7, 2)]
    await asyncio.gather(*calls)
    assert copy == await contents(store) != {}


# Leases.


async def test_a_leased_key_is_read_and_watched_like_any_other(store: MetadataStore) -> None:
    told = Told()
    store.watch(told)
    lease = await store.grant_lease(60)
    assert await store.transact([Check("a", 0)], [Put("a", b"1", lease)])
    assert (await read(store, "a")).value == b"1"
    assert told.calls == [[("a", b"1")]]
    version = (await read(store, "a")).version
    assert not await store.transact([Check("a", 0)], [Put("a", b"2", lease)])
    assert await store.transact([Check("a", version)], [Put("a", b"2", lease)])
    assert (await read(store, "a")).version > version


async def test_revoking_deletes_the_keys_of_that_lease_at_once(store: MetadataStore) -> None:
    mine, other = await store.grant_lease(60), await store.grant_lease(60)
    await store.transact([], [Put("a", b"1", mine), Put("b", b"1", other), Put("c", b"1")])
    await store.transact([], [Put("d", b"1", mine)])
    told = Told()
    store.watch(told)
    await store.revoke(mine)
    assert await contents(store) == {"b": b"1", "c": b"1"}
    assert [sorted(call) for call in told.calls] == [[("a", None), ("d", None)]]
    await store.revoke(mine)
    assert len(told.calls) == 1, "twice is once"


async def test_a_lost_lease_is_refused_and_nothing_is_changed(store: MetadataStore) -> None:
    lease = await store.grant_lease(60)
    await store.revoke(lease)
    with pytest.raises(LeaseLost):
        await store.transact([], [Put("a", b"1"), Put("b", b"1", lease)])
    with pytest.raises(LeaseLost):
        await store.keep_alive(lease)
    assert await store.range("") == []


async def test_a_lease_that_nobody_keeps_alive_ends(store: MetadataStore) -> None:
    lease = await store.grant_lease(0.2)
    await store.transact([], [Put("a", b"1", lease), Put("b", b"1")])
    gone = asyncio.Event()
    store.watch(lambda _: gone.set())
    await asyncio.wait_for(gone.wait(), 20)
    assert await contents(store) == {"b": b"1"}
    with pytest.raises(LeaseLost):
        await store.keep_alive(lease)


async def test_a_lease_kept_alive_outlives_its_time(store: MetadataStore) -> None:
    lease = await store.grant_lease(0.5)
    await store.transact([], [Put("a", b"1", lease)])
    for _ in range(12):
        await asyncio.sleep(0.1)
        await store.keep_alive(lease)
    assert await contents(store) == {"a": b"1"}


async def test_the_last_put_says_what_a_key_lives_on(make_store: MakeStore) -> None:
    store = make_store()
    await store.open()
    first, second = await store.grant_lease(60), await store.grant_lease(60)
    await store.transact([], [Put("durable", b"1", first), Put("moved", b"1", first)])
    await store.transact([], [Put("leased", b"1")])
    await store.transact([], [Put("durable", b"2"), Put("moved", b"2", second)])
    await store.transact([], [Put("leased", b"2", first)])
    await store.revoke(first)
    assert await contents(store) == {"durable": b"2", "moved": b"2"}
    await store.revoke(second)
    await store.close()
    again = make_store()
    await again.open()
    assert await contents(again) == {"durable": b"2"}
    await again.close()


async def test_leased_writes_keep_their_place_behind_durable_ones(store: MetadataStore) -> None:
    """Needing no disk is no reason to overtake: `a` was submitted first and is checked here."""
    lease = await store.grant_lease(60)
    durable = asyncio.ensure_future(store.transact([Check("a", 0)], [Put("a", b"1")]))
    await asyncio.sleep(0)
    leased = asyncio.ensure_future(store.transact([Check("a", 0)], [Put("b", b"1", lease)]))
    assert [await durable, await leased] == [True, False]
    assert await contents(store) == {"a": b"1"}


async def test_a_revocation_keeps_its_place_too(store: MetadataStore) -> None:
    lease = await store.grant_lease(60)
    await store.transact([], [Put("a", b"1", lease)])
    mixed = asyncio.ensure_future(store.transact([], [Put("x", b"1"), Put("b", b"1", lease)]))
    await asyncio.sleep(0)
    revoked = asyncio.ensure_future(store.revoke(lease))
    await asyncio.sleep(0)
    anew = asyncio.ensure_future(store.transact([Check("a", 0)], [Put("a", b"2")]))
    await asyncio.gather(mixed, revoked, anew)
    assert await anew is True
    assert await contents(store) == {"a": b"2", "x": b"1"}
