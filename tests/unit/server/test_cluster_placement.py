"""Placement in a cluster: a broker's questions, answered from the view of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from machine_world import ALL, NAME, group_on, session_of, state_change
from shell_world import ShellWorld
from warren.cluster.events import StoreChanged
from warren.cluster.link.remote_queue import RemoteQueue
from warren.metadata.keys import group_key
from warren.model.fields import Field, Table
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.server import cluster_placement

MIN_MASTERS = {"queue-master-locator": "min-masters"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ShellWorld]:
    """`a`, with other nodes `b` and `c`."""
    async with ShellWorld(tmp_path) as world:
        for node in "bc":
            await world.add_node(node)
        yield world


async def test_a_queue_is_made_here_or_asked_for_where_its_master_is(world: ShellWorld) -> None:
    assert isinstance(await world.declare(), Queue)
    await world.vhost.delete_queue("q", False, False, "")
    assert isinstance(await world.declare("b"), RemoteQueue)
    assert world.remote.asker.node == "b"


async def test_a_queue_that_moved_is_made_where_its_group_says(world: ShellWorld) -> None:
    await world.put_group(group_on("cb"))
    await world.declare("b")
    assert world.remote.asker.node == "c"


async def test_exclusive_and_client_local_queues_stay_with_their_client(world: ShellWorld) -> None:
    placement = world.placement
    assert placement.place(QueueRecord(*NAME, owner="connection"), MIN_MASTERS) == "a"
    assert placement.place(QueueRecord(*NAME), {}) == "a"


async def test_the_node_with_the_fewest_masters_gets_the_queue(world: ShellWorld) -> None:
    """4-24: of the nodes that a policy lists, if it lists any."""
    await world.declare()
    assert world.placement.place(QueueRecord("/", "new"), MIN_MASTERS) == "b"
    policy = {**ALL, **MIN_MASTERS, "ha-mode": "nodes", "ha-params": ["a", "c"]}
    assert world.placement.place(QueueRecord("/", "new"), policy) == "c"


async def test_drained_nodes_get_no_queues(world: ShellWorld) -> None:
    """4-26."""
    await world.declare()
    world.shell.tell(StoreChanged([state_change("b", is_drained=True)]))
    assert world.placement.place(QueueRecord("/", "new"), MIN_MASTERS) == "c"


async def test_the_argument_of_a_queue_says_where_it_goes(world: ShellWorld) -> None:
    """4-22."""
    await world.declare()
    argument = Table([("x-queue-master-locator", Field("S", b"min-masters"))])
    assert world.placement.place(QueueRecord("/", "new", arguments=argument), {}) == "b"


async def test_a_transient_queue_is_put_with_the_lease_of_its_node(world: ShellWorld) -> None:
    lease = world.placement.lease_of("b")
    assert lease is not None
    assert lease.id == session_of("b").lease
    assert world.placement.lease_of("a") is None


async def test_groups_say_what_outlives_a_master_and_goes_along_with_a_queue(
    world: ShellWorld,
) -> None:
    record = QueueRecord(*NAME, node="b", durable=False)
    placement = world.placement
    assert not placement.outlives_master(record)
    assert list(placement.companions(*NAME)) == []
    await world.put_group(group_on("z"))
    assert placement.outlives_master(record)
    assert placement.is_masterless(record)
    assert list(placement.companions(*NAME)) == [group_key(*NAME)]


async def test_a_declare_waits_for_its_copies_but_not_for_ever(
    world: ShellWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the nodes may be in trouble."""
    monkeypatch.setattr(cluster_placement, "DECLARE_S_MAX", 0.02)
    await world.mirror_all()
    queue = await asyncio.wait_for(world.vhost.declare_queue(QueueRecord(*NAME), False, ""), 60)
    assert isinstance(queue, Queue)
    await world.until(lambda: bool(world.shell.node.led()))


async def test_a_watch_that_ends_applies_nothing_any_more(world: ShellWorld) -> None:
    applied: list[object] = []
    cancel = world.placement.watch(world.store, applied.append)
    await world.put_session("d")
    assert len(applied) == 1
    cancel()
    await world.put_session("e")
    assert len(applied) == 1


async def test_exchanges_without_bindings_are_removed_by_whoever_is_first(
    world: ShellWorld,
) -> None:
    world.placement.exchanges_lost_bindings(world.vhost)
    await world.until(lambda: not world.context._background)
