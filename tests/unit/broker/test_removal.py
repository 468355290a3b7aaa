"""What goes along: bindings with their ends, and with these auto-delete exchanges."""

from __future__ import annotations

import asyncio

import pytest

from broker_world import BrokerWorld
from topology_samples import binding, exchange, queue, to_exchange
from warren.broker import removal
from warren.broker.events import INTERNAL_USER, Event
from warren.broker.vhost import VirtualHost


class Heard:
    """A listener that keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def wants(self, name: str) -> bool:
        return True

    def hear(self, event: Event) -> None:
        self.events.append(event)


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
    monkeypatch.setattr(removal, "BINDINGS_AT_ONCE_MAX", 10)
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
    # The third has the last five of x and five of y, which gets a new version; y goes at the end.
    assert sizes == [10, 10, 11, 12]


async def test_an_exchange_loses_very_many_bindings_in_slices(
    world: BrokerWorld, vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made for a slice at a time: to plan for all each time would be quadratic."""
    monkeypatch.setattr(removal, "BINDINGS_AT_ONCE_MAX", 10)
    await vhost.declare_exchange(exchange("x", "direct", auto_delete=True))
    await vhost.declare_exchange(exchange("from", "topic"))
    await vhost.declare_queue(queue("q"), False, "c")
    for number in range(25):
        await vhost.bind(binding("x", "q", f"{number}"), "c")
    for number in range(3):
        await vhost.bind(binding("from", to_exchange("x"), f"{number}"), "c")
    sizes: list[int] = []
    world.store.watch(lambda changes: sizes.append(len(changes)))
    await vhost.delete_exchange("x")
    assert "x" not in vhost.exchanges
    assert len(vhost.bindings) == 0
    assert await stored_names(world, "binding") == []
    assert sizes == [11, 11, 9]


async def test_others_have_their_turn_while_very_many_bindings_go(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is durable, and so no transaction waits for the disk."""
    monkeypatch.setattr(removal, "BINDINGS_AT_ONCE_MAX", 10)
    await vhost.declare_exchange(exchange("x", "direct", durable=False))
    await vhost.declare_queue(queue("q", durable=False), False, "c")
    for number in range(50):
        await vhost.bind(binding("x", "q", f"{number}"), "c")
    deletion = asyncio.create_task(vhost.delete_exchange("x"))
    left = []
    while not deletion.done():
        await asyncio.sleep(0)
        left.append(len(vhost.bindings))
    assert sorted(set(left), reverse=True) == [40, 30, 20, 10, 0]


async def test_a_queue_that_loses_its_bindings_in_slices_is_hidden(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BINDINGS_AT_ONCE_MAX", 10)
    await vhost.declare_queue(queue("q"), False, "c")
    for number in range(50):
        await vhost.bind(binding("amq.direct", "q", f"{number}"), "c")
    deletion = asyncio.create_task(vhost.delete_queue("q", False, False, "c"))
    await asyncio.sleep(0)
    assert "q" not in vhost.queues
    assert vhost.route("amq.direct", ["49"], None) == ()
    await deletion
    assert len(vhost.bindings) == 0


async def test_bindings_removed_ahead_are_told_as_events(
    world: BrokerWorld, vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BINDINGS_AT_ONCE_MAX", 10)
    await vhost.declare_exchange(exchange("x", "direct"))
    await vhost.declare_queue(queue("q"), False, "c")
    for number in range(25):
        await vhost.bind(binding("x", "q", f"{number}"), "c")
    heard = Heard()
    vhost.events.listeners.append(heard)
    await vhost.delete_exchange("x")
    deleted = [each for each in heard.events if each.name == "binding.deleted"]
    assert len(deleted) == 25
    assert {each.properties["user_who_performed_action"] for each in deleted} == {INTERNAL_USER}
    assert heard.events[-1].name == "exchange.deleted"
