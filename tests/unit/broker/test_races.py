"""Two at once: everything ends as if one had come after the other, in memory and in the store.

Tasks gathered here all make their plans before the first transaction is through, since durable
changes wait for the disk.
"""

from __future__ import annotations

import asyncio

import pytest

from broker_world import BrokerWorld, publish_to
from topology_samples import binding, exchange, queue, to_exchange
from warren.broker.vhost import VirtualHost
from warren.metadata.store import MetadataUnavailable
from warren.model.errors import HardError, SoftError
from warren.model.records import BindingRecord


async def together(*work: object) -> list[object]:
    return await asyncio.gather(*work, return_exceptions=True)


def codes(results: list[object]) -> list[int]:
    return [result.code for result in results if isinstance(result, SoftError)]


async def keys(world: BrokerWorld, kind: str) -> list[str]:
    return [record.key for record in await world.store.range(f"{kind}/")]


async def test_two_declares_of_one_queue_make_one_queue(vhost: VirtualHost) -> None:
    first, second = await together(
        vhost.declare_queue(queue("q"), False, "a"), vhost.declare_queue(queue("q"), False, "b")
    )
    assert first is second is vhost.queues["q"]


async def test_two_declares_of_one_exchange_make_one_exchange(vhost: VirtualHost) -> None:
    first, second = await together(
        vhost.declare_exchange(exchange("x")), vhost.declare_exchange(exchange("x"))
    )
    assert first is second is vhost.exchanges["x"]


async def test_the_second_of_two_different_declares_is_refused(vhost: VirtualHost) -> None:
    results = await together(
        vhost.declare_queue(queue("q", {"x-max-length": 1}), False, "a"),
        vhost.declare_queue(queue("q", {"x-max-length": 2}), False, "b"),
    )
    assert codes(results) == [406]
    assert vhost.queues["q"] is results[0]


async def test_the_second_of_two_different_exchanges_is_refused(vhost: VirtualHost) -> None:
    results = await together(
        vhost.declare_exchange(exchange("x", "topic")),
        vhost.declare_exchange(exchange("x", "fanout")),
    )
    assert codes(results) == [406]
    assert vhost.exchanges["x"] is results[0]
    assert results[0].record.type == "topic"


async def test_two_who_bind_the_same_have_bound_it_once(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await vhost.declare_queue(queue("q"), False, "a")
    wanted = binding("amq.topic", "q", "#")
    assert await together(vhost.bind(wanted, "a"), vhost.bind(wanted, "b")) == [None, None]
    assert len(vhost.bindings) == len(await keys(world, "binding")) == 1
    await vhost.unbind(wanted, "a")
    assert vhost.route("amq.topic", ["k"], None) == ()


async def test_a_queue_is_exclusive_to_the_first_of_two(vhost: VirtualHost) -> None:
    results = await together(
        vhost.declare_queue(queue("q"), False, "a"),
        vhost.declare_queue(queue("q", owner="b"), False, "b"),
    )
    assert codes(results) == [405]
    await vhost.drop_exclusive("b")
    assert vhost.queues["q"] is results[0]


async def test_a_queue_declared_while_it_is_deleted_is_a_new_one(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    old = await vhost.declare_queue(queue("q"), False, "a")
    await vhost.bind(binding("amq.topic", "q", "#"), "a")
    count, new = await together(
        vhost.delete_queue("q", False, False, "a"), vhost.declare_queue(queue("q"), False, "b")
    )
    assert count == 0
    assert vhost.queues["q"] is new is not old
    assert len(vhost.bindings) == 0
    assert len(await keys(world, "queue")) == 1


async def test_a_binding_made_while_its_queue_is_deleted_is_not_left_over(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await vhost.declare_queue(queue("q"), False, "a")
    await together(
        vhost.bind(binding("amq.topic", "q", "#"), "b"), vhost.delete_queue("q", False, False, "a")
    )
    assert len(vhost.bindings) == 0
    assert vhost.route("amq.topic", ["k"], None) == ()
    assert await keys(world, "binding") == []
    await vhost.declare_queue(queue("q"), False, "a")
    await vhost.bind(binding("amq.topic", "q", "#"), "b")
    assert len(vhost.route("amq.topic", ["k"], None)) == 1


async def test_a_queue_on_its_way_out_cannot_be_bound(vhost: VirtualHost) -> None:
    await vhost.declare_queue(queue("q"), False, "a")
    results = await together(
        vhost.delete_queue("q", False, False, "a"), vhost.bind(binding("amq.topic", "q", "#"), "b")
    )
    assert codes(results) == [404]
    assert len(vhost.bindings) == 0


@pytest.mark.parametrize("delete_first", [True, False])
@pytest.mark.parametrize(
    "wanted", [binding("x", "q", "k"), binding("amq.topic", to_exchange("x"), "k")]
)
async def test_a_binding_made_while_its_exchange_is_deleted_is_not_left_over(
    world: BrokerWorld, vhost: VirtualHost, delete_first: bool, wanted: BindingRecord
) -> None:
    await vhost.declare_queue(queue("q"), False, "a")
    await vhost.declare_exchange(exchange("x"))
    work = [vhost.bind(wanted, "b"), vhost.delete_exchange("x")]
    results = await together(*(reversed(work) if delete_first else work))
    assert codes(results) == ([404] if delete_first else [])
    assert len(vhost.bindings) == 0
    assert await keys(world, "binding") == []


async def test_of_two_last_bindings_removed_at_once_one_takes_the_exchange_along(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    await vhost.declare_queue(queue("q"), False, "a")
    for key in ("1", "2"):
        await vhost.bind(binding("x", "q", key), "a")
    await together(*(vhost.unbind(binding("x", "q", key), key) for key in ("1", "2")))
    assert "x" not in vhost.exchanges
    assert await keys(world, "exchange") == []


async def test_two_queues_deleted_at_once_take_their_exchange_along(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    for name in ("p", "q"):
        await vhost.declare_queue(queue(name), False, "a")
        await vhost.bind(binding("x", name, "k"), "a")
    await together(*(vhost.delete_queue(name, False, False, name) for name in ("p", "q")))
    assert not vhost.queues
    assert "x" not in vhost.exchanges


@pytest.mark.parametrize("bind_first", [True, False])
async def test_an_exchange_that_gets_a_binding_while_it_loses_its_last(
    world: BrokerWorld, vhost: VirtualHost, bind_first: bool
) -> None:
    """Either the binding comes first and the exchange stays, or it is not found any more."""
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    await vhost.declare_queue(queue("q"), False, "a")
    await vhost.bind(binding("x", "q", "old"), "a")
    work = [
        vhost.bind(binding("x", "q", "new"), "b"),
        vhost.unbind(binding("x", "q", "old"), "a"),
    ]
    results = await together(*(work if bind_first else reversed(work)))
    assert codes(results) == ([] if bind_first else [404])
    assert ("x" in vhost.exchanges) is bind_first
    assert len(vhost.bindings) == len(await keys(world, "binding")) == int(bind_first)


async def test_many_may_bind_to_one_auto_delete_exchange_at_once(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    await vhost.declare_queue(queue("q"), False, "a")
    results = await together(*(vhost.bind(binding("x", "q", f"{n}"), "a") for n in range(40)))
    assert results == [None] * 40
    assert len(vhost.bindings) == 40


async def test_one_binding_unbound_twice_at_once_is_unbound(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    await vhost.declare_queue(queue("q"), False, "a")
    await vhost.bind(binding("x", "q", "k"), "a")
    assert await together(*(vhost.unbind(binding("x", "q", "k"), "a") for _ in "ab")) == [None] * 2
    assert "x" not in vhost.exchanges


async def test_a_queue_found_empty_gets_no_more_messages_before_it_goes(
    vhost: VirtualHost,
) -> None:
    made = await vhost.declare_queue(queue("q"), False, "a")
    await vhost.bind(binding("amq.fanout", "q"), "a")
    assert vhost.route("", ["q"], None) == (made,)
    deletion = asyncio.create_task(vhost.delete_queue("q", True, True, "a"))
    await asyncio.sleep(0)
    assert not deletion.done()
    assert vhost.route("", ["q"], None) == ()
    assert vhost.route("amq.fanout", ["k"], None) == ()
    with pytest.raises(SoftError):
        vhost.lookup_queue("q", "a")
    assert await deletion == 0


async def test_a_deletion_that_the_store_cannot_make_leaves_the_queue_as_it_was(
    world: BrokerWorld, vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await vhost.declare_queue(queue("q"), False, "a")
    await vhost.bind(binding("amq.fanout", "q"), "a")
    publish_to(made)

    async def fail(*_: object) -> bool:
        raise MetadataUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "transact", fail)
        with pytest.raises(MetadataUnavailable):
            await vhost.delete_queue("q", False, False, "a")
    assert vhost.route("amq.fanout", ["k"], None) == (made,)
    assert made.message_count == 1
    assert await vhost.delete_queue("q", False, False, "a") == 1


async def test_a_cancelled_deletion_happens_or_does_not(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    for number in range(5):
        await vhost.declare_queue(queue("q"), False, "a")
        deletion = asyncio.create_task(vhost.delete_queue("q", False, False, "a"))
        for _ in range(number):
            await asyncio.sleep(0)
        deletion.cancel()
        await together(deletion)
        await vhost.declare_queue(queue("after"), False, "a")  # behind it in the store
        assert bool(await keys(world, "queue")) is True
        assert ("q" in vhost.queues) == ("queue/%2F/q" in await keys(world, "queue"))


async def test_a_queue_whose_owner_went_while_it_was_declared_goes_too(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    """The declare waits behind a deletion of the same name; the connection does not."""
    await vhost.declare_queue(queue("q"), False, "a")
    deletion = asyncio.create_task(vhost.delete_queue("q", False, False, "a"))
    await asyncio.sleep(0)
    declare = asyncio.create_task(vhost.declare_queue(queue("q", owner="b"), False, "b"))
    await asyncio.sleep(0)
    assert not deletion.done()
    await vhost.drop_exclusive("b")
    _, answer = await together(deletion, declare)
    assert isinstance(answer, HardError)
    assert not vhost.queues
    assert await keys(world, "queue") == []


async def test_dropping_what_a_connection_owns_spares_the_queue_of_a_faster_one(
    vhost: VirtualHost,
) -> None:
    winner = asyncio.create_task(vhost.declare_queue(queue("q"), False, "a"))
    loser = asyncio.create_task(vhost.declare_queue(queue("q", owner="b"), False, "b"))
    await asyncio.sleep(0)
    loser.cancel()
    await vhost.drop_exclusive("b")
    assert vhost.queues["q"] is await winner
