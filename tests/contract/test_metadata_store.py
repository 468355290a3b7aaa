"""What `warren.metadata.store` promises of reads and transactions, asked of every engine."""

from __future__ import annotations

import asyncio

import pytest

from metadata_engines import MakeStore
from metadata_reading import Told, contents, read
from warren.metadata.store import (
    KEY_CHARS_MAX,
    TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    Check,
    Delete,
    MetadataStore,
    MetadataUnavailable,
    Put,
)

# Reads.


async def test_a_key_that_was_never_written_is_not_there(store: MetadataStore) -> None:
    assert await store.get("a") is None
    assert await store.range("") == []


async def test_a_range_is_all_keys_with_the_prefix_in_their_order(store: MetadataStore) -> None:
    written = ["b/2", "b/10", "a", "b", "c", "b/1", "b0"]
    await store.transact([], [Put(key, key.encode()) for key in written])
    assert [r.key for r in await store.range("b/")] == ["b/1", "b/10", "b/2"]
    assert [r.key for r in await store.range("b")] == ["b", "b/1", "b/10", "b/2", "b0"]
    assert [r.value for r in await store.range("")] == [k.encode() for k in sorted(written)]
    assert await store.range("d") == []


async def test_values_are_any_bytes(store: MetadataStore) -> None:
    value = bytes(range(256)) + b"\0"
    await store.transact([], [Put("a", value), Put("empty", b"")])
    assert (await read(store, "a")).value == value
    assert (await read(store, "empty")).value == b""


# Versions.


async def test_a_version_grows_with_every_write(store: MetadataStore) -> None:
    versions = []
    for value in (b"1", b"2", b"2"):
        await store.transact([], [Put("a", value)])
        versions.append((await read(store, "a")).version)
    assert 0 < versions[0] < versions[1] < versions[2]


async def test_records_written_together_share_a_version(store: MetadataStore) -> None:
    await store.transact([], [Put("a", b"1"), Put("b", b"1")])
    assert (await read(store, "a")).version == (await read(store, "b")).version


async def test_a_write_leaves_the_versions_of_other_keys_alone(store: MetadataStore) -> None:
    await store.transact([], [Put("a", b"1")])
    before = (await read(store, "a")).version
    await store.transact([], [Put("b", b"1")])
    assert (await read(store, "a")).version == before


async def test_a_key_made_anew_never_gets_an_old_version_back(make_store: MakeStore) -> None:
    """Who validated the old queue must not pass for a new one of its name, even after a restart."""
    seen: set[int] = set()
    for restart in range(3):
        store = make_store()
        await store.open()
        for _ in range(3):
            await store.transact([], [Put("q", b"")])
            version = (await read(store, "q")).version
            assert version not in seen, f"after {restart} restarts"
            seen.add(version)
            await store.transact([], [Delete("q")])
        await store.close()


# Transactions.


async def test_a_check_holds_for_exactly_the_version_read(store: MetadataStore) -> None:
    await store.transact([], [Put("a", b"1")])
    version = (await read(store, "a")).version
    assert not await store.transact([Check("a", version - 1)], [Put("a", b"no")])
    assert not await store.transact([Check("a", version + 1)], [Put("a", b"no")])
    assert await store.transact([Check("a", version)], [Put("a", b"2")])
    assert not await store.transact([Check("a", version)], [Put("a", b"no")])
    assert (await read(store, "a")).value == b"2"


async def test_version_zero_means_absent(store: MetadataStore) -> None:
    assert await store.transact([Check("a", 0)], [Put("a", b"1")])
    assert not await store.transact([Check("a", 0)], [Put("a", b"2")])
    await store.transact([], [Delete("a")])
    assert await store.transact([Check("a", 0)], [Put("a", b"3")])


async def test_one_failed_check_changes_nothing(store: MetadataStore) -> None:
    await store.transact([], [Put("a", b"1"), Put("b", b"1")])
    told = Told()
    store.watch(told)
    checks = [Check("a", (await read(store, "a")).version), Check("b", 0)]
    assert not await store.transact(checks, [Put("a", b"2"), Put("c", b"2"), Delete("b")])
    assert await contents(store) == {"a": b"1", "b": b"1"}
    assert told.calls == []


async def test_a_check_alone_is_a_question(store: MetadataStore) -> None:
    assert await store.transact([Check("a", 0)], [])
    assert not await store.transact([Check("a", 1)], [])


async def test_writing_a_key_twice_in_one_transaction_is_refused(store: MetadataStore) -> None:
    with pytest.raises(ValueError, match="once"):
        await store.transact([], [Put("a", b"1"), Delete("a")])
    assert await store.get("a") is None


@pytest.mark.parametrize(
    "changes",
    [
        [Put("", b"")],
        [Put("k" * (KEY_CHARS_MAX + 1), b"")],
        [Put("ключ", b"")],
        [Put("a", b"x" * (VALUE_BYTES_MAX + 1))],
        [Put(str(i), b"") for i in range(TRANSACTION_OPERATIONS_MAX + 1)],
    ],
    ids=["empty key", "long key", "key not ASCII", "large value", "many operations"],
)
async def test_what_is_out_of_bounds_is_refused(store: MetadataStore, changes: list[Put]) -> None:
    with pytest.raises(ValueError, match=r"at most|ASCII|over"):
        await store.transact([], changes)
    assert await store.range("") == []


async def test_what_is_just_within_bounds_is_kept(store: MetadataStore) -> None:
    largest = Put("k" * KEY_CHARS_MAX, b"x" * VALUE_BYTES_MAX)
    many = [Put(f"n/{i}", b"") for i in range(TRANSACTION_OPERATIONS_MAX - 1)]
    assert await store.transact([], [largest, *many])
    assert len(await store.range("n/")) == len(many)
    assert (await read(store, largest.key)).value == largest.value


async def test_true_means_that_it_survives_a_restart(make_store: MakeStore) -> None:
    store = make_store()
    await store.open()
    await store.transact([], [Put("a", b"1"), Put("b", b"1"), Put("c", b"1")])
    await store.transact([], [Put("a", b"2"), Delete("b")])
    before = await store.range("")
    await store.close()
    again = make_store()
    await again.open()
    assert await again.range("") == before
    await again.close()


async def test_transactions_on_one_key_take_effect_in_the_order_of_the_calls(
    store: MetadataStore,
) -> None:
    told = Told()
    store.watch(told)
    values = [b"%d" % i for i in range(200)]
    results = await asyncio.gather(*(store.transact([], [Put("a", v)]) for v in values))
    assert all(results)
    assert told.calls == [[("a", value)] for value in values]
    assert (await read(store, "a")).value == values[-1]


async def test_of_many_who_create_one_key_at_once_the_first_wins(store: MetadataStore) -> None:
    calls = [store.transact([Check("a", 0)], [Put("a", b"%d" % i)]) for i in range(50)]
    assert await asyncio.gather(*calls) == [True] + [False] * 49
    assert (await read(store, "a")).value == b"0"


async def test_compare_and_set_loses_no_increment(store: MetadataStore) -> None:
    """Ten tasks count to two hundred together, each retrying until its own step is taken."""

    async def count(steps: int) -> None:
        while steps:
            record = await store.get("n")
            version, value = (record.version, int(record.value)) if record else (0, 0)
            if await store.transact([Check("n", version)], [Put("n", b"%d" % (value + 1))]):
                steps -= 1

    await asyncio.gather(*(count(20) for _ in range(10)))
    assert (await read(store, "n")).value == b"200"


async def test_a_cancelled_caller_leaves_all_or_nothing(store: MetadataStore) -> None:
    calls = [
        asyncio.ensure_future(store.transact([], [Put(f"{i}/a", b""), Put(f"{i}/b", b"")]))
        for i in range(40)
    ]
    for turn, call in enumerate(calls):
        if turn % 3 == 0:
            await asyncio.sleep(0)
        if turn % 2 == 0:
            call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    for i, result in enumerate(results):
        kept = len(await store.range(f"{i}/"))
        assert kept == 2 if result is True else kept in {0, 2}, f"transaction {i}: {result!r}"
    assert await store.transact([], [Put("after", b"")]), "the store goes on"


async def test_closing_waits_for_what_was_submitted(make_store: MakeStore) -> None:
    store = make_store()
    await store.open()
    calls = [asyncio.ensure_future(store.transact([], [Put(f"{i}", b"")])) for i in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*calls) == [True] * 50
    again = make_store()
    await again.open()
    assert len(await again.range("")) == 50
    await again.close()


async def test_a_closed_store_says_so(make_store: MakeStore) -> None:
    store = make_store()
    with pytest.raises(MetadataUnavailable):
        await store.transact([], [Put("a", b"")])
    await store.open()
    await store.close()
    await store.close()
    with pytest.raises(MetadataUnavailable):
        await store.transact([], [Put("a", b"")])
    with pytest.raises(MetadataUnavailable):
        await store.grant_lease(1)
