"""What only the engine over etcd can be asked: members that die, lost history, strangers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from aetcd import rpc

from broker_process import free_port
from etcd_process import EtcdCluster
from metadata_engines import shared_etcd
from metadata_reading import contents
from warren.metadata import etcd
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.etcd_client import EtcdClient
from warren.metadata.store import Check, MetadataUnavailable, MetadataUnusable, Put


@pytest.fixture(scope="module")
def trio() -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(members=3).start()
    yield cluster
    cluster.stop()


async def opened(cluster: EtcdCluster, namespace: str) -> EtcdStore:
    store = EtcdStore(parse_etcd_address(cluster.url), namespace)
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
    await asyncio.wait_for(told.wait(), 5)
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
    assert min(steps) > 20
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
    request = rpc.CompactionRequest(revision=revision, physical=True)
    await client.call(rpc.KVStub, "Compact", request)
    await client.close()
    first._following = asyncio.get_running_loop().create_task(first._feed.run())
    await first._copy.reached(revision)
    assert await contents(first) == await contents(second)
    assert (await contents(first))["kept"] == b"19"


async def test_without_a_majority_a_change_fails_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(etcd, "PATIENCE_S", 1.0)
    monkeypatch.setattr("warren.metadata.etcd_client.CALL_TIMEOUT_S", 0.5)
    cluster = EtcdCluster(members=3).start()
    store = await opened(cluster, "minority")
    assert await store.transact([], [Put("a", b"1")])
    for member in cluster.members[1:]:
        member.stop(signal.SIGKILL)
    with pytest.raises(MetadataUnavailable, match="etcd"):
        await store.transact([Check("b", 0)], [Put("b", b"1")])
    assert await contents(store) == {"a": b"1"}, "reads go on, of the last that was known"
    for member in cluster.members[1:]:
        member.start()
    for member in cluster.members:
        await asyncio.to_thread(member.wait_ready)
    assert await store.transact([], [Put("c", b"1")])
    await store.close()
    cluster.stop()


async def test_a_key_space_of_something_else_is_left_alone() -> None:
    address = parse_etcd_address(shared_etcd().url)
    client = EtcdClient(address)
    await client.call(rpc.KVStub, "Put", rpc.PutRequest(key=b"/warren/alien/format", value=b"x"))
    await client.close()
    with pytest.raises(MetadataUnusable, match="/warren/alien/format"):
        await EtcdStore(address, "alien").open()


async def test_nobody_at_the_address_is_said_with_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(etcd, "PATIENCE_S", 0.2)
    monkeypatch.setattr("warren.metadata.etcd_client.CALL_TIMEOUT_S", 0.3)
    url = f"etcd://127.0.0.1:{free_port()}"
    with pytest.raises(MetadataUnusable, match=url):
        await EtcdStore(parse_etcd_address(url)).open()


async def test_a_stock_etcd_that_allows_too_few_operations_is_told_how_to_allow_more() -> None:
    cluster = EtcdCluster(options=()).start()
    store = await opened(cluster, "stock")
    with pytest.raises(MetadataUnavailable, match="--max-txn-ops"):
        await store.transact([], [Put(f"{i}", b"") for i in range(200)])
    assert await store.transact([], [Put("a", b"")]), "what fits goes on"
    await store.close()
    cluster.stop()
