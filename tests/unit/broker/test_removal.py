"""What goes along: bindings with their ends, and with these auto-delete exchanges."""

from __future__ import annotations

import pytest

from broker_world import BrokerWorld
from topology_samples import binding, exchange, queue, to_exchange
from warren.broker import writer
from warren.broker.vhost import VirtualHost


async def stored_names(world: BrokerWorld, kind: str) -> list[str]:
    return [record.key for record in await world.store.range(f"{kind}/")]


async def test_bindings_go_with_their_queue(world: BrokerWorld, vhost: VirtualHost) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    await vhost.declare_queue(queue("stays"), False, "c")
    for name in ("q", "stays"):
        await vhost.bind(binding("amq.topic", name, "#"), "c")
    await vhost.delete_queue("q", False, False, "c")
    assert list(vhost.bindings.all()) == [binding("amq.topic", "stays", "#")]
    assert len(await stored_names(world, "binding")) == 1


async def test_bindings_go_with_their_exchange_at_either_end(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await vhost.declare_exchange(exchange("x"))
    await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("x", "q", "k"), "c")
    await vhost.bind(binding("amq.topic", to_exchange("x"), "#"), "c")
    await vhost.bind(binding("x", to_exchange("x"), "#"), "c")
    await vhost.delete_exchange("x")
    assert list(vhost.bindings.all()) == []
    assert await stored_names(world, "binding") == []
    assert vhost.route("amq.topic", ["k"], None) == ()


async def test_an_auto_delete_exchange_goes_with_its_last_binding(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    await vhost.declare_queue(queue("q"), False, "c")
    for key in ("1", "2"):
        await vhost.bind(binding("x", "q", key), "c")
    await vhost.unbind(binding("x", "q", "1"), "c")
    assert "x" in vhost.exchanges
    await vhost.unbind(binding("x", "q", "2"), "c")
    assert "x" not in vhost.exchanges
    assert await stored_names(world, "exchange") == []


async def test_an_auto_delete_exchange_goes_with_its_last_queue(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    for name in ("p", "q"):
        await vhost.declare_queue(queue(name), False, "c")
        await vhost.bind(binding("x", name, "k"), "c")
    await vhost.delete_queue("p", False, False, "c")
    assert "x" in vhost.exchanges
    await vhost.delete_queue("q", False, False, "c")
    assert "x" not in vhost.exchanges


async def test_an_auto_delete_exchange_that_was_never_bound_stays(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    await vhost.bind(binding("amq.topic", to_exchange("x")), "c")
    await vhost.unbind(binding("amq.topic", to_exchange("x")), "c")
    await vhost.unbind(binding("x", "none"), "c")
    assert "x" in vhost.exchanges


async def test_a_chain_of_auto_delete_exchanges_goes_together(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    """first -> second -> third -> queue: with the queue the whole chain is of no use."""
    names = ["first", "second", "third"]
    for name in names:
        await vhost.declare_exchange(exchange(name, "fanout", auto_delete=True))
    await vhost.declare_exchange(exchange("kept", "fanout"))
    await vhost.declare_queue(queue("q"), False, "c")
    for source in ("first", "kept"):
        await vhost.bind(binding(source, to_exchange("second")), "c")
    await vhost.bind(binding("second", to_exchange("third")), "c")
    await vhost.bind(binding("third", "q"), "c")
    await vhost.delete_queue("q", False, False, "c")
    assert {*names, "kept"} & set(vhost.exchanges) == {"kept"}
    assert len(vhost.bindings) == 0
    assert await stored_names(world, "exchange") == ["exchange/%2F/kept"]


async def test_auto_delete_exchanges_in_a_circle_hold_each_other(vhost: VirtualHost) -> None:
    for name in ("a", "b"):
        await vhost.declare_exchange(exchange(name, "fanout", auto_delete=True))
    await vhost.bind(binding("a", to_exchange("b")), "c")
    await vhost.bind(binding("b", to_exchange("a")), "c")
    await vhost.delete_exchange("a")
    assert "b" not in vhost.exchanges


async def test_a_connection_may_take_many_queues_with_it(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", "fanout", durable=False, auto_delete=True))
    for number in range(1_100):
        await vhost.declare_queue(queue(f"q{number}", owner="c"), False, "c")
        await vhost.bind(binding("x", f"q{number}"), "c")
    await vhost.drop_exclusive("c")
    assert not vhost.queues
    assert "x" not in vhost.exchanges


async def test_more_bindings_than_one_transaction_holds_go_too(
    world: BrokerWorld, vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "OPERATIONS_AT_ONCE", 10)
    await vhost.declare_exchange(exchange("x", "topic"))
    await vhost.declare_exchange(exchange("y", "topic", auto_delete=True))
    await vhost.declare_queue(queue("q"), False, "c")
    for number in range(25):
        await vhost.bind(binding("x", "q", f"{number}"), "c")
    for number in range(15):
        await vhost.bind(binding("y", "q", f"{number}"), "c")
    sizes: list[int] = []
    world.store.watch(lambda changes: sizes.append(len(changes)))
    await vhost.delete_queue("q", False, False, "c")
    assert len(vhost.bindings) == 0
    assert "y" not in vhost.exchanges
    assert await stored_names(world, "binding") == []
    assert sizes == [10, 10, 5, 17]  # the last one as a whole: it takes y along
