"""The topology of a node as its machine sees it: queues and policies of the real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from machine_world import ALL, NAME
from shell_world import ShellWorld
from warren.cluster.topology import BrokerTopology
from warren.metadata.codec import encode_record
from warren.metadata.keys import queue_key
from warren.metadata.store import Put
from warren.model.records import Policy, QueueRecord

OTHER = ("/", "other")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ShellWorld]:
    async with ShellWorld(tmp_path) as world:
        yield world


@pytest.fixture
def topology(world: ShellWorld) -> BrokerTopology:
    return BrokerTopology(world.factory)


async def test_queues_are_found_by_name_here_and_elsewhere(
    world: ShellWorld, topology: BrokerTopology
) -> None:
    await world.declare("b")
    await world.vhost.declare_queue(QueueRecord(*OTHER), False, "")
    record = topology.record_of(NAME)
    assert record is not None
    assert (record.name, record.node) == ("q", "b")
    assert [topology.is_here(name) for name in (NAME, OTHER)] == [False, True]
    assert set(topology.names()) == {NAME, OTHER}
    assert topology.masters_declared() == {"a": 1, "b": 1}


async def test_queues_that_do_not_exist_have_no_record(topology: BrokerTopology) -> None:
    for name in (NAME, ("deleted", "q")):
        assert topology.record_of(name) is None
        assert not topology.is_here(name)
    assert topology.policy_of(QueueRecord("deleted", "q")) == {}


async def test_the_policy_of_a_queue_is_all_policies_merged(
    world: ShellWorld, topology: BrokerTopology
) -> None:
    await world.declare()
    record = topology.record_of(NAME)
    assert record is not None
    assert topology.policy_of(record) == {}
    await world.mirror_all()
    assert topology.policy_of(record)["ha-mode"] == "all"


async def test_only_virtual_hosts_that_mirror_anything_are_looked_through(
    world: ShellWorld, topology: BrokerTopology
) -> None:
    """Plans for a node with a million unmirrored queues cost nothing."""
    await world.declare()
    assert topology.names_here() == []
    await world.mirror_all()
    assert topology.names_here() == topology.names_here("/") == [NAME]
    assert topology.names_here("other") == []


async def test_of_many_queues_only_those_that_a_policy_mirrors_are_planned_for(
    world: ShellWorld, topology: BrokerTopology
) -> None:
    await world.declare()
    other = encode_record(QueueRecord(*OTHER, node="a"))
    await world.store.transact([], [Put(queue_key(*OTHER), other)])
    await world.broker.policies.set(Policy("/", "p", "^other$", ALL))
    assert topology.names_here() == [OTHER]
    await world.mirror_all()
    assert {*topology.names_here()} == {NAME, OTHER}
