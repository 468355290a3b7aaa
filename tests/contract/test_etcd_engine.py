"""What only the engine over etcd can be asked: members that die, lost history, strangers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from broker_process import free_port
from etcd_administration import COMPACT, compaction_request
from etcd_process import EtcdCluster
from metadata_engines import shared_etcd
from metadata_reading import contents
from warren.metadata.etcd import PATIENCE_S, EtcdStore
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.etcd_client import EtcdClient
from warren.metadata.etcd_messages import PUT, RANGE, put_request, range_request
from warren.metadata.store import (
    VALUE_BYTES_MAX,
    Check,
    Delete,
    LeaseLost,
    MetadataUnavailable,
    MetadataUnusable,
    Put,
)
from warren.metadata.view import Effects


@pytest.fixture(scope="module")
def trio() -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(members=3).start()
    yield cluster
    cluster.stop()


async def opened(cluster: EtcdCluster, namespace: str, patience_s: float = PATIENCE_S) -> EtcdStore:
    store = EtcdStore(parse_etcd_address(cluster.url), namespace, patience_s)
    await store.open()
    return store


@pytest.fixture
async def pair(trio: EtcdCluster) -> AsyncIterator[tuple[EtcdStore, EtcdStore]]:
    first, second = await opened(trio, "pair"), await opened(trio, "pair")
    yield first, second
    await first.close()
    await second.close()


async def test_what_one_node_writes_another_is_told(pair: tuple[EtcdStore, EtcdStore]) -> None:
    first, second = pair
    told = asyncio.Event()
    second.watch(lambda changes: told.set() if changes[0].key == "told" else None)
    await first.transact([], [Put("told", b"1")])
    await asyncio.wait_for(told.wait(), 60)
    assert (await contents(second))["told"] == b"1"


async def test_members_restarted_one_by_one_cost_no_error(
    trio: EtcdCluster, pair: tuple[EtcdStore, EtcdStore]
) -> None:
    first, second = pair
    is_over = False

    async def count(store: EtcdStore, key: str) -> int:
        steps = 0
        while not is_over:
            record = await store.get(key)
            version = record.version if record else 0
            assert await store.transact([Check(key, version)], [Put(key, b"%d" % (steps + 1))])
            steps += 1
            await asyncio.sleep(0.005)
        return steps

    counting = [asyncio.create_task(count(first, "a")), asyncio.create_task(count(second, "b"))]
    for member in trio.members:
        await asyncio.sleep(0.3)
        member.stop(signal.SIGKILL)
        await asyncio.sleep(0.7)
        member.start()
        await asyncio.to_thread(member.wait_ready)
    is_over = True
    steps = await asyncio.gather(*counting)
    assert min(steps) > len(trio.members)
    third = await opened(trio, "pair")
    found = await contents(third)
    await third.close()
    assert [int(found["a"]), int(found["b"])] == steps, "each step once, whoever had to be asked"


async def test_history_compacted_while_away_is_read_anew(
    trio: EtcdCluster, pair: tuple[EtcdStore, EtcdStore]
) -> None:
    first, second = pair
    await first.transact([], [Put("gone", b""), Put("kept", b"1")])
    await second.transact([], [Put("seen", b"")])
    following = first._following
    assert following is not None
    following.cancel()
    await asyncio.wait([following])
    for i in range(20):
        await second.transact([], [Put("kept", b"%d" % i)])
    await second.transact([], [Put("new", b"1")])
    client = EtcdClient(parse_etcd_address(trio.url))
    revision = second._copy.revision
    await client.call(COMPACT, compaction_request(revision))
    await client.close()
    first._following = asyncio.get_running_loop().create_task(first._feed.run())
    await first._copy.reached(revision)
    assert await contents(first) == await contents(second)
    assert (await contents(first))["kept"] == b"19"


async def test_a_feed_that_fails_is_reported(trio: EtcdCluster) -> None:
    """What raises here is not a watcher, but what has to be done before watchers are told."""
    reported: asyncio.Future[tuple[str, BaseException]] = asyncio.get_running_loop().create_future()
    address = parse_etcd_address(trio.url)
    store = EtcdStore(
        address, "fault", on_fault=lambda change, error: reported.set_result((change, error))
    )
    await store.open()
    other = await opened(trio, "fault")

    async def fail(_: Effects) -> None:
        raise RuntimeError("no room")

    store.prepare_with(fail)
    await other.transact([], [Put("a", b"1")])
    change, error = await asyncio.wait_for(reported, 60)
    assert change == f"a change after revision {store.revision}"
    assert str(error) == "no room"
    await store.close()
    await other.close()


async def test_without_a_majority_a_change_fails_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = EtcdCluster(members=3).start()
    store = await opened(cluster, "minority")
    assert await store.transact([], [Put("a", b"1")])
    for member in cluster.members[1:]:
        member.stop(signal.SIGKILL)
    with monkeypatch.context() as impatient:
        impatient.setattr(store, "_patience_s", 1.0)
        impatient.setattr("warren.metadata.etcd_client.CALL_TIMEOUT_S", 0.5)
        with pytest.raises(MetadataUnavailable, match="etcd"):
            await store.transact([Check("b", 0)], [Put("b", b"1")])
    assert await contents(store) == {"a": b"1"}, "reads go on, of the last that was known"
    for member in cluster.members[1:]:
        member.start()
    for member in cluster.members:
        await asyncio.to_thread(member.wait_ready)
    assert await _succeeds_in_the_end(store, Put("c", b"1"))
    await store.close()
    cluster.stop()


async def _succeeds_in_the_end(store: EtcdStore, put: Put) -> bool:
    """It is not patient, and etcd may be choosing a leader yet."""
    for _ in range(30):
        try:
            return await store.transact([], [put])
        except MetadataUnavailable:
            await asyncio.sleep(0.5)
    return False


async def test_a_key_space_of_something_else_is_left_alone() -> None:
    address = parse_etcd_address(shared_etcd().url)
    client = EtcdClient(address)
    await client.call(PUT, put_request(b"/warren/alien/format", b"x"))
    await client.close()
    with pytest.raises(MetadataUnusable, match="/warren/alien/format"):
        await EtcdStore(address, "alien").open()


async def test_what_lies_where_the_key_space_would_be_is_left_alone() -> None:
    address = parse_etcd_address(shared_etcd().url)
    client = EtcdClient(address)
    await client.call(PUT, put_request(b"/warren/squat/a", b"mine"))
    with pytest.raises(MetadataUnusable, match=r"holds '/warren/squat/a' = b'mine'.* another etcd"):
        await EtcdStore(address, "squat").open()
    look = range_request(b"/warren/squat/", b"/warren/squat0")
    assert (await client.call(RANGE, look)).key_count == 1, "nothing was added"
    await client.close()


async def test_nobody_at_the_address_is_said_with_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warren.metadata.etcd_client.CONNECT_TIMEOUT_S", 0.3)
    url = f"etcd://127.0.0.1:{free_port()}"
    with pytest.raises(MetadataUnusable, match=url):
        await EtcdStore(parse_etcd_address(url), patience_s=0.2).open()


async def test_a_stock_etcd_takes_transactions_larger_than_it_allows_as_one() -> None:
    """It allows 128 operations; ours are nested."""
    cluster = EtcdCluster(options=()).start()
    store = await opened(cluster, "stock")
    for number in range(60):
        await store.transact([], [Put(f"held/{number}", b"")])
    checks = [Check(record.key, record.version) for record in await store.range("held/")]
    for count in (128, 129, 4_097, 8_000):
        changes = [Put(f"{count}/{i}", b"") for i in range(count)]
        told: list[int] = []
        cancel = store.watch(lambda changes, told=told: told.append(len(changes)))
        assert await store.transact(checks, changes)
        assert not await store.transact([*checks, Check("held/0", 0)], [Put("never", b"")])
        assert await store.transact(checks, [Delete(change.key) for change in changes])
        assert told == [count, count], "each as one"
        cancel()
    large = [Put(f"{i}", bytes(VALUE_BYTES_MAX)) for i in range(2)]
    with pytest.raises(MetadataUnavailable, match="--max-request-bytes"):
        await store.transact([], large)
    assert await store.transact([], large[:1]), "what fits goes on"
    await store.close()
    cluster.stop()


async def test_changes_under_way_at_once_share_requests_and_are_judged_each_by_itself() -> None:
    store = await opened(shared_etcd(), "together")
    await store.transact([], [Put("taken", b"")])
    expired = await store.grant_lease(5)
    await store.revoke(expired)
    told: list[list[str]] = []
    store.watch(lambda changes: told.append([change.key for change in changes]))

    async def put(number: int) -> bool:
        if number % 10 == 3:
            return await store.transact([Check("taken", 0)], [Put(f"refused/{number}", b"")])
        return await store.transact([Check(f"done/{number}", 0)], [Put(f"done/{number}", b"1")])

    answers = await asyncio.gather(*(put(number) for number in range(100)))
    assert answers == [number % 10 != 3 for number in range(100)]
    done = [f"done/{number}" for number in range(100) if number % 10 != 3]
    assert sorted(key for keys in told for key in keys) == sorted(done)
    assert len(told) < len(done) / 2, "most went together"
    assert (await contents(store)).keys() == {"taken", *done}
    await store.close()


async def test_one_that_etcd_will_not_have_does_not_take_others_along() -> None:
    store = await opened(shared_etcd(), "blamed")
    expired = await store.grant_lease(5)
    await store.revoke(expired)
    results = await asyncio.gather(
        *(store.transact([], [Put(f"{number}", b"")]) for number in range(10)),
        store.transact([], [Put("leased", b"", expired)]),
        *(store.transact([], [Put(f"{number}", b"")]) for number in range(10, 20)),
        return_exceptions=True,
    )
    assert isinstance(results.pop(10), LeaseLost)
    assert results == [True] * 20
    assert (await contents(store)).keys() == {f"{number}" for number in range(20)}
    await store.close()


async def test_who_made_a_change_is_told_with_it() -> None:
    address = parse_etcd_address(shared_etcd().url)
    first, second = (EtcdStore(address, "named", writer=writer) for writer in ("first", "second"))
    await first.open()
    await second.open()
    applied: list[tuple[int, str]] = []
    first.on_applied(lambda revision, writer: applied.append((revision, writer)))
    revisions = [await store.commit([], [Put("a", b"1")]) for store in (first, second, first)]
    assert await first.commit([Check("a", 1)], []) is None
    assert await first.commit([], []) == 0
    assert applied == list(zip(revisions, ("first", "second", "first"), strict=True))
    await first.close()
    await second.close()
