"""Where a mirrored queue is, as clients of a node without a copy see it: there, or nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker_world import BrokerWorld
from link_world import LinkWorld, Outcomes, message
from warren.cluster.remote_queue import RemoteQueue
from warren.mirror.group_record import GroupRecord, Member
from warren.model.errors import SoftError
from warren.model.records import QueueRecord
from warren.queues.boundary import PENDING
from warren.queues.settings import QueueSettings
from warren.server.mirroring import homes as homes_module
from warren.server.mirroring.homes import Homes

NAME = ("/", "q")
LEADER = Member("home/life/1", "home", "life")


class Surroundings:
    """What `Homes` asks of its node: one group, one link."""

    def __init__(self, link: LinkWorld) -> None:
        self.record = GroupRecord("uid", 1, 1, LEADER.id, (LEADER,), (LEADER.id,))
        self.home = "home"
        self.survivors: list[Member] = [LEADER]
        self.running_nodes = ["home", "here"]
        self.links = SimpleNamespace(nodes={"home": SimpleNamespace(asker=link.asker)})
        self.mirrors: Any = self
        self.groups: Any = self
        self.records = {NAME: (self.record, 1)}
        self.vhosts: dict[str, Any] = {}
        self.broker = self
        self.brake = SimpleNamespace(watch=lambda credit: None)

    def group_of(self, record: QueueRecord) -> GroupRecord:
        return self.record

    def home_of(self, record: QueueRecord) -> str:
        return self.home

    def survivors_of(self, record: QueueRecord) -> list[Member]:
        return self.survivors

    def new_origin(self) -> str:
        return "here/1"


class HomesWorld:
    def __init__(self, link: LinkWorld) -> None:
        self.link = link
        self.around = Surroundings(link)
        cluster: Any = self.around
        self.homes = Homes(cluster, cluster)
        self.remote = RemoteQueue(QueueRecord(*NAME, node="home"), QueueSettings(), link.asker)
        self.around.vhosts["/"] = SimpleNamespace(queues={"q": self.remote})
        self.homes.note(self.remote)
        link.asker.on_homeless = lambda queue: self.homes.rehome(NAME, is_lost=True)
        self.outcomes = Outcomes()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HomesWorld]:
    async with BrokerWorld(tmp_path) as broker:
        link = LinkWorld(broker)
        await link.declared()
        yield HomesWorld(link)


async def test_what_waits_for_a_home_that_could_not_be_reached_goes_there_when_it_can(
    world: HomesWorld,
) -> None:
    world.remote.publish(message(b"1"), world.outcomes, 1)
    world.link.move()
    world.link.cut()
    world.link.asker.lost()  # as after a while without a link
    assert world.remote.publish(message(b"2"), world.outcomes, 2) == PENDING
    asking = asyncio.ensure_future(world.remote.counts())
    await asyncio.sleep(0)
    world.link.connect()
    world.homes.link_stands("home")
    assert await world.link.ask(asking) == (1, 0)
    assert (world.outcomes.confirms, world.outcomes.refusals) == ([1, 2], [])


async def test_a_queue_without_a_home_is_waited_for_and_not_for_ever(
    world: HomesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes_module, "HOMELESS_S_MAX", 0.05)
    world.around.home = ""
    world.homes.rehome(NAME)
    assert world.remote.publish(message(b"1"), world.outcomes, 1) == PENDING
    with pytest.raises(SoftError, match="home node 'home' of durable queue 'q'"):
        await asyncio.wait_for(world.remote.counts(), 60)
    assert world.outcomes.refusals == [1]


async def test_patience_with_a_queue_that_is_homeless_again_begins_anew(
    world: HomesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes_module, "HOMELESS_S_MAX", 0.05)
    world.homes.await_home(world.remote)
    world.homes.rehome(NAME)
    monkeypatch.setattr(homes_module, "HOMELESS_S_MAX", 600.0)
    world.homes.await_home(world.remote)
    asking = asyncio.ensure_future(world.remote.counts())
    await asyncio.sleep(0.2)
    assert not asking.done()
    world.homes.rehome(NAME)
    assert await world.link.ask(asking) == (0, 0)


async def test_a_queue_that_nobody_can_bring_back_is_down_at_once(world: HomesWorld) -> None:
    world.around.home = ""
    world.around.survivors = []
    world.around.running_nodes = ["here"]
    world.homes.rehome(NAME)
    with pytest.raises(SoftError, match="is down or inaccessible"):
        await asyncio.wait_for(world.remote.counts(), 60)


async def test_a_queue_that_a_node_which_is_back_may_have_on_its_disk_is_waited_for(
    world: HomesWorld,
) -> None:
    world.around.home = ""
    world.around.survivors = []
    world.around.running_nodes = ["here"]
    world.homes.rehome(NAME)
    world.around.running_nodes = ["here", "home"]
    world.homes.node_is_up("home")
    asking = asyncio.ensure_future(world.remote.counts())
    await asyncio.sleep(0)
    assert not asking.done()
    world.around.home = "home"
    world.homes.rehome(NAME)
    assert await world.link.ask(asking) == (0, 0)


async def test_a_queue_that_nobody_here_had_used_yet_is_waited_for_when_its_home_is_lost(
    world: HomesWorld,
) -> None:
    world.link.asker.lost()
    world.around.home = ""
    world.homes.node_is_down("home")
    assert world.remote.publish(message(b"1"), world.outcomes, 1) == PENDING
    world.around.home = "home"
    world.link.connect()
    world.homes.link_stands("home")
    world.link.move()
    assert (world.outcomes.confirms, world.outcomes.refusals) == ([1], [])
