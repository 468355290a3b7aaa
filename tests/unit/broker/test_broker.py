"""The broker: first start, virtual hosts that come and go, and who hears of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from topology_samples import binding, exchange, queue
from warren.broker.vhost import VirtualHost
from warren.metadata.store import Delete, Put
from warren.model.errors import HardError


async def test_the_first_start_makes_a_vhost_and_a_user(world: BrokerWorld) -> None:
    assert list(world.broker.vhosts) == ["/"]
    user = world.broker.access.authenticate("guest", b"guest", peer_is_loopback=True)
    world.broker.access.require_vhost(user, "/")


async def test_a_vhost_that_was_deleted_is_not_made_again_by_a_restart(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.broker.add_vhost("mine")
        await world.broker.delete_vhost("/")
    async with BrokerWorld(tmp_path) as world:
        assert list(world.broker.vhosts) == ["mine"]


async def test_vhosts_keep_their_things_apart(world: BrokerWorld) -> None:
    await world.broker.add_vhost("other")
    other = world.broker.vhosts["other"]
    await other.declare_exchange(replace(exchange("x"), vhost="other"))
    made = await other.declare_queue(replace(queue("q"), vhost="other"), False, "c")
    await other.bind(replace(binding("x", "q", "k"), vhost="other"), "c")
    assert other.route("x", ["k"], None) == (made,)
    assert "x" not in world.vhost.exchanges
    assert not world.vhost.queues
    assert len(world.vhost.bindings) == 0
    with pytest.raises(Exception, match="no queue 'none' in vhost 'other'"):
        other.lookup_queue("none", "c")


async def test_deleting_a_vhost_tells_first_and_takes_everything_along(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    transient = await vhost.declare_queue(queue("t", owner="c"), False, "c")
    await vhost.declare_exchange(exchange("x"))
    await vhost.bind(binding("x", "q", "k"), "c")
    await vhost.bind(binding("x", "t", "k"), "c")
    told: list[tuple[str, bool]] = []
    world.broker.on_vhost_deleted.append(lambda name: told.append((name, made.is_deleted)))
    await world.broker.delete_vhost("/")
    assert told == [("/", False)]
    assert made.is_deleted
    assert transient.is_deleted
    assert "/" not in world.broker.vhosts
    for kind in ("vhost", "queue", "exchange", "binding", "permission"):
        assert await world.store.range(f"{kind}/") == []


async def test_nothing_can_be_declared_in_a_deleted_vhost(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await vhost.declare_queue(queue("old", owner="c"), False, "c")
    await world.broker.delete_vhost("/")
    attempts = [
        lambda: vhost.declare_queue(queue("q"), False, "c"),
        lambda: vhost.declare_exchange(exchange("x")),
        lambda: vhost.bind(binding("amq.topic", "q"), "c"),
        lambda: vhost.unbind(binding("amq.topic", "q"), "c"),
        lambda: vhost.delete_queue("q", False, False, "c"),
        lambda: vhost.delete_exchange("x"),
    ]
    for attempt in attempts:
        with pytest.raises(HardError) as refused:
            await attempt()
        assert (refused.value.code, refused.value.explanation) == (320, "vhost '/' is deleted")
    await vhost.drop_exclusive("c")
    assert await world.store.range("queue/") == []


async def test_a_declare_that_races_with_the_deletion_of_its_vhost_leaves_nothing(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    results = await asyncio.gather(
        world.broker.delete_vhost("/"),
        *(vhost.declare_queue(queue(f"q{n}"), False, "c") for n in range(3)),
        vhost.declare_exchange(exchange("x")),
        return_exceptions=True,
    )
    assert [getattr(result, "code", None) for result in results] == [None, 320, 320, 320, 320]
    for kind in ("vhost", "queue", "exchange", "binding"):
        assert await world.store.range(f"{kind}/") == []


async def test_nothing_durable_is_stored_for_a_vhost_that_has_just_gone(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    """Another node may have deleted it: nobody here clears away behind it."""
    await vhost.declare_queue(queue("q"), False, "c")
    await asyncio.gather(
        world.store.transact([], [Delete("vhost/%2F")]),
        vhost.declare_queue(queue("late"), False, "c"),
        vhost.declare_exchange(exchange("late")),
        vhost.bind(binding("amq.topic", "q", "late"), "c"),
        return_exceptions=True,
    )
    for kind in ("queue", "exchange", "binding"):
        assert not [r.key for r in await world.store.range(f"{kind}/") if "late" in r.key]


async def test_a_vhost_made_again_is_empty(world: BrokerWorld, vhost: VirtualHost) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    await world.broker.delete_vhost("/")
    await world.broker.add_vhost("/")
    assert world.vhost is not vhost
    assert not world.vhost.queues
    await world.vhost.declare_queue(queue("q"), False, "c")


async def test_a_vhost_whose_record_changes_can_still_be_declared_in(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    """Its record gets a new version in the store, which is what durable declares insist on."""
    stored = await world.store.get("vhost/%2F")
    await world.store.transact([], [Put(stored.key, stored.value)])
    assert world.vhost is vhost
    await vhost.declare_queue(queue("q"), False, "c")
    assert "q" in vhost.queues


async def test_a_deleted_user_is_told_of(world: BrokerWorld) -> None:
    told: list[str] = []
    world.broker.on_user_deleted.append(told.append)
    await world.broker.admin.add_user("someone", "secret")
    await world.broker.admin.set_tags("someone", ["monitoring"])
    assert told == []
    await world.broker.admin.delete_user("someone")
    assert told == ["someone"]


async def test_a_node_that_comes_too_late_loses_what_was_transient_and_goes_on(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    transient = await vhost.declare_queue(queue("t", durable=False), False, "c")
    await vhost.declare_queue(queue("d"), False, "c")
    await world.broker.keep_alive()
    assert set(vhost.queues) == {"t", "d"}
    await world.store.revoke(world.broker.lease)
    assert transient.is_deleted
    assert set(vhost.queues) == {"d"}
    await world.broker.keep_alive()
    await vhost.declare_queue(queue("t", durable=False), False, "c")
    assert set(vhost.queues) == {"t", "d"}


async def test_after_stopping_the_broker_hears_nothing_more(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        made = await world.vhost.declare_queue(queue("t", durable=False), False, "c")
    assert not made.is_deleted
