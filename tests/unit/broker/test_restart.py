"""After a restart: what is durable is there, what is not is gone, and nothing is half there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from topology_samples import binding, exchange, queue, table, to_exchange, typed
from warren.metadata.codec import encode_record
from warren.metadata.keys import binding_key, queue_key
from warren.metadata.store import Put, Record
from warren.metadata.view import Entry
from warren.model.next_turn import NextTurn


async def test_durable_things_survive_as_they_were_declared(tmp_path: Path) -> None:
    arguments = {"x-message-ttl": typed("s", 5), "n": [1, {"deep": None}], "t": True}
    wanted_exchange = exchange("x é/%", "topic", {"alternate-exchange": "ae", "k": 1.5})
    wanted_queue = queue("q é/%", arguments)
    wanted_binding = binding("x é/%", "q é/%", "a.*", arguments)
    async with BrokerWorld(tmp_path) as world:
        await world.vhost.declare_exchange(wanted_exchange)
        await world.vhost.declare_queue(wanted_queue, False, "c")
        await world.vhost.bind(wanted_binding, "c")
    async with BrokerWorld(tmp_path) as world:
        vhost = world.vhost
        assert vhost.exchanges["x é/%"].record == wanted_exchange
        assert vhost.exchanges["x é/%"].alternate == "ae"
        assert vhost.queues["q é/%"].record == wanted_queue
        [found] = vhost.bindings.all()
        assert found.arguments.get("n") == table(arguments).get("n")
        assert vhost.route("x é/%", ["a.b"], None) == (vhost.queues["q é/%"],)
        await vhost.bind(wanted_binding, "c")
        assert len(vhost.bindings) == 1


async def test_transient_things_do_not_survive(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.vhost.declare_exchange(exchange("x", durable=False))
        await world.vhost.declare_queue(queue("q", durable=False), False, "c")
        await world.vhost.declare_queue(queue("exclusive", owner="c"), False, "c")
        await world.vhost.declare_queue(queue(""), False, "c")
    async with BrokerWorld(tmp_path) as world:
        assert "x" not in world.vhost.exchanges
        [name] = world.vhost.queues
        assert name.startswith("amq.gen-")


async def test_a_binding_survives_if_both_its_ends_do(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        vhost = world.vhost
        await vhost.declare_exchange(exchange("durable"))
        await vhost.declare_exchange(exchange("transient", durable=False))
        await vhost.declare_queue(queue("durable"), False, "c")
        await vhost.declare_queue(queue("transient", durable=False), False, "c")
        for source in ("durable", "transient", "amq.direct"):
            for name in ("durable", "transient"):
                await vhost.bind(binding(source, name, "k"), "c")
                await vhost.bind(binding(source, to_exchange(name), "k"), "c")
        assert len(vhost.bindings) == 12
    async with BrokerWorld(tmp_path) as world:
        assert set(world.vhost.bindings.all()) == {
            binding("durable", "durable", "k"),
            binding("durable", to_exchange("durable"), "k"),
            binding("amq.direct", "durable", "k"),
            binding("amq.direct", to_exchange("durable"), "k"),
        }


async def test_deleted_things_stay_deleted(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.vhost.declare_exchange(exchange("x", auto_delete=True))
        await world.vhost.declare_queue(queue("q"), False, "c")
        await world.vhost.bind(binding("x", "q", "k"), "c")
        await world.vhost.delete_queue("q", False, False, "c")
    async with BrokerWorld(tmp_path) as world:
        assert not world.vhost.queues
        assert "x" not in world.vhost.exchanges
        assert len(world.vhost.bindings) == 0


async def test_what_goes_and_comes_while_a_start_loads_the_rest_is_not_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a cluster, other nodes go on declaring and deleting meanwhile."""
    async with BrokerWorld(tmp_path) as world:
        for number in range(5):
            await world.vhost.declare_queue(queue(f"q{number}"), False, "c")
    monkeypatch.setattr("warren.broker.broker.LOADED_PER_TURN_MAX", 1)
    world = BrokerWorld(tmp_path)
    await world.store.open()
    starting = asyncio.ensure_future(world.broker.start())
    while "/" not in world.broker.vhosts or "q1" not in world.vhost.queues:
        await NextTurn()
    assert "q4" not in world.vhost.queues, "it is loaded later"
    # Told before the store has answered, as by another node.
    effects = [(queue_key("/", "q4"), None), (queue_key("/", "q0"), None)]
    world.store._apply(effects)
    late = queue("late")
    record = Record(queue_key("/", "late"), encode_record(late), 1_000)
    world.store._apply([(record.key, Entry(record, 0))])
    await starting
    assert {*world.vhost.queues} == {"q1", "q2", "q3", "late"}
    await world.__aexit__()


async def test_an_auto_delete_exchange_outlives_the_restart_that_took_its_bindings(
    tmp_path: Path,
) -> None:
    """It was not unbound by anybody; RabbitMQ keeps it too."""
    async with BrokerWorld(tmp_path) as world:
        await world.vhost.declare_exchange(exchange("x", auto_delete=True))
        await world.vhost.declare_queue(queue("q", owner="c"), False, "c")
        await world.vhost.bind(binding("x", "q", "k"), "c")
    async with BrokerWorld(tmp_path) as world:
        assert "x" in world.vhost.exchanges
        await world.vhost.declare_queue(queue("q", owner="c"), False, "c")
        await world.vhost.bind(binding("x", "q", "k"), "c")
        await world.vhost.drop_exclusive("c")
        assert "x" not in world.vhost.exchanges


async def test_a_binding_that_lost_its_queue_in_a_crash_is_cleared_away(tmp_path: Path) -> None:
    orphan = binding("amq.topic", "gone", "#")
    async with BrokerWorld(tmp_path) as world:
        await world.store.transact([], [Put(binding_key(orphan), encode_record(orphan))])
    async with BrokerWorld(tmp_path) as world:
        assert len(world.vhost.bindings) == 0
        assert await world.store.range("binding/") == []
        await world.vhost.declare_queue(queue("gone"), False, "c")
        assert world.vhost.route("amq.topic", ["k"], None) == ()
