"""Queue moves: clients follow a queue whose master comes, goes, or is elsewhere than it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker_world import BrokerWorld
from link_world import LinkWorld, Outcomes, RemoteClient, message
from machine_world import NAME, member_of
from shell_world import ShellWorld
from warren.cluster import redirection
from warren.cluster.events import LinkDown, LinkGivenUp, LinkUp
from warren.cluster.link.control import OpenQueue
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.queue_moves import make_inbox
from warren.model.errors import SoftError
from warren.model.fields import Field, Table
from warren.queues.boundary import PENDING, TAKEN
from warren.queues.consumers import Consumer
from warren.queues.deduplicating_queue import DeduplicatingQueue
from warren.queues.queue import Queue
from warren.replication.classic.master import MasterBacking
from warren.replication.group_record import GroupRecord, Member
from warren.replication.stream.stream_master import StreamMaster
from warren.streams.queue import StreamQueue

LEADER = member_of("home")
STREAM = Table([("x-queue-type", Field("S", b"stream"))])
PRIORITIES = Table([("x-max-priority", Field("I", 3))])
DEDUPLICATING = Table([("x-message-deduplication", Field("t", True))])


def led_by(*members: Member, insync: str = "", epoch: int = 1) -> GroupRecord:
    ids = tuple(m.id for m in members if not insync or m.node in insync.split())
    nodes = tuple(m.node for m in members)
    return GroupRecord("uid", epoch, 5 * epoch, members[0].id, members, ids, nodes)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ShellWorld]:
    (tmp_path / "a").mkdir()
    async with ShellWorld(tmp_path / "a") as world:
        yield world


@pytest.fixture
async def link(world: ShellWorld, tmp_path: Path) -> AsyncIterator[LinkWorld]:
    """The link of `a` to `home`, which leads the queue and has the only copy."""
    (tmp_path / "home").mkdir()
    async with BrokerWorld(tmp_path / "home") as broker:
        link = LinkWorld(broker)
        await link.declared()
        world.next_askers["home"] = link.asker
        await world.mirror_all()
        await world.add_node("home")
        await world.declare("home")
        await world.put_group(led_by(LEADER))
        yield link


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


def give_up(world: ShellWorld, link: LinkWorld) -> None:
    """As links do after a while without one."""
    world.shell.tell(LinkDown("home"))
    world.shell.tell(LinkGivenUp("home"))
    link.asker.lost()


# Where the queue is.


async def test_what_waits_for_a_master_that_could_not_be_reached_goes_there_when_it_can(
    world: ShellWorld, link: LinkWorld, outcomes: Outcomes
) -> None:
    world.remote.publish(message(b"1"), outcomes, 1)
    link.move()
    link.cut()
    give_up(world, link)
    assert world.remote.publish(message(b"2"), outcomes, 2) == PENDING
    asking = asyncio.ensure_future(world.remote.counts())
    await asyncio.sleep(0)
    link.connect()
    world.shell.tell(LinkUp("home"))
    assert await link.ask(asking) == (1, 0)
    assert (outcomes.confirms, outcomes.refusals) == ([1, 2], [])


async def test_a_queue_without_a_master_is_waited_for_and_not_for_ever(
    world: ShellWorld, link: LinkWorld, outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redirection, "MASTERLESS_MS_MAX", 50)
    await world.add_node("c")
    await world.put_group(led_by(LEADER, member_of("c", 2)))
    await world.end_session("home")
    assert world.remote.publish(message(b"1"), outcomes, 1) == PENDING
    with pytest.raises(SoftError, match="home nodes 'home', 'c' of durable queue 'q'"):
        await asyncio.wait_for(world.remote.counts(), 60)
    assert outcomes.refusals == [1]


async def test_a_queue_that_nobody_can_bring_back_is_down_at_once(
    world: ShellWorld, link: LinkWorld
) -> None:
    await world.end_session("home")
    with pytest.raises(SoftError, match="is down or inaccessible"):
        await asyncio.wait_for(world.remote.counts(), 60)


async def test_a_queue_that_is_down_when_it_is_made_names_the_nodes_that_have_copies(
    world: ShellWorld,
) -> None:
    """Not the one that it was declared at, which may be the one that answers."""
    await world.mirror_all()
    await world.put_group(led_by(member_of("c"), member_of("d", 2)))
    await world.declare("home")
    with pytest.raises(SoftError, match="home nodes 'c', 'd' of durable queue 'q' in"):
        world.remote.require_available()


async def test_a_queue_that_a_node_which_is_back_may_have_on_its_disk_is_waited_for(
    world: ShellWorld, link: LinkWorld
) -> None:
    await world.end_session("home")
    world.next_askers["home"] = link.asker
    await world.put_session("home", "2")
    asking = asyncio.ensure_future(world.remote.counts())
    await asyncio.sleep(0)
    assert not asking.done()
    link.connect()
    world.shell.tell(LinkUp("home"))
    await world.put_group(led_by(member_of("home", life="2"), epoch=2))
    assert await link.ask(asking) == (0, 0)


async def test_a_queue_that_nobody_here_had_used_yet_is_waited_for_when_its_master_is_lost(
    world: ShellWorld, link: LinkWorld, outcomes: Outcomes
) -> None:
    await world.add_node("c")
    await world.put_group(led_by(LEADER, member_of("c", 2)))
    give_up(world, link)
    assert world.remote.publish(message(b"1"), outcomes, 1) == PENDING
    link.connect()
    world.shell.tell(LinkUp("home"))
    link.move()
    assert (outcomes.confirms, outcomes.refusals) == ([1], [])


async def test_a_queue_of_a_node_without_a_session_is_lost_until_the_node_is_there(
    world: ShellWorld,
) -> None:
    """Its stand-in refuses everything; with the session comes a link to ask over."""
    await world.declare("later")
    assert world.remote.asker.is_lost
    asker = await world.add_node("later")
    assert world.remote.asker is asker


async def test_a_queue_that_is_awaited_when_it_is_made_waits(world: ShellWorld) -> None:
    """The group is known before the queue, and its leader is gone."""
    await world.mirror_all()
    await world.add_node("c")
    await world.put_group(led_by(LEADER, member_of("c", 2)))
    await world.declare("home")
    assert (world.remote.asker.node, world.remote.asker.is_lost) == ("", False)
    assert world.remote.is_mirrored


async def test_orders_about_queues_that_are_deleted_or_here_change_nothing(
    world: ShellWorld,
) -> None:
    queue = await world.declare()
    for name in (NAME, ("/", "deleted"), ("deleted", "q")):
        world.shell.moves.redirect(name, "b", is_mirrored=True)
        world.shell.moves.await_master(name)
        world.shell.moves.lose_master(name, ("b",))
    assert world.vhost.queues["q"] is queue


# Leading.


async def test_a_queue_that_is_mirrored_keeps_its_messages_and_its_clients(
    world: ShellWorld, outcomes: Outcomes
) -> None:
    """What a client has and has not acknowledged is told to mirrors, too."""
    queue = await world.declare()
    assert isinstance(queue, Queue)
    client = RemoteClient()
    world.links.served.append(client.deliveries)
    consumer = Consumer(queue, client.deliveries, "tag", False, 1)
    queue.add_consumer(consumer)
    for body in (b"1", b"2"):
        queue.publish(message(body), outcomes, 1)
    assert client.bodies() == [b"1"]
    await world.mirror_all()
    await world.until(world.shell.node.led)
    assert world.vhost.queues["q"] is queue
    assert isinstance(queue.backing, MasterBacking)
    assert (queue.backing.unacked_count, queue.message_count) == (1, 1)


async def test_a_queue_that_is_not_mirrored_any_more_goes_on_with_what_it_has(
    world: ShellWorld,
) -> None:
    await world.lead()
    queue = world.vhost.queues["q"]
    assert isinstance(queue, Queue)
    queue.publish(message(b"1"), None, 0)
    inner = queue.backing.inner
    await world.broker.policies.clear("/", "p")
    await world.until(lambda: NAME not in world.shell.view.groups)
    assert queue.backing is inner
    assert queue.message_count == 1


async def test_a_promoted_mirror_takes_over_clients_and_what_they_published(
    world: ShellWorld, outcomes: Outcomes
) -> None:
    """`home` ends before it has answered: publishes are in the queue once, and confirmed."""
    await world.add_node("home")
    host = await world.follow(LEADER)
    remote = world.remote
    client = RemoteClient()
    consumer = client.consumer(remote)
    remote.consumers[b"1"] = consumer
    for number in (1, 2):
        assert remote.publish(message(b"%d" % number), outcomes, number) == PENDING
    await world.end_session("home")
    await world.until(lambda: host.replica.master is not None)
    queue = world.vhost.queues["q"]
    assert isinstance(queue, Queue)
    await world.until(lambda: outcomes.confirms == [1, 2])
    assert (queue.consumer_count, consumer.queue) == (1, queue)
    assert client.bodies() == [b"1", b"2"]


async def test_what_a_mirror_has_already_is_confirmed_and_not_published_again(
    world: ShellWorld, outcomes: Outcomes
) -> None:
    """3-21: the copy here says how far this node's publishes have come."""
    await world.add_node("home")
    host = await world.follow(LEADER)
    host.replica.mirror.numbers[world.remote.origin] = 1
    for number in (1, 2):
        world.remote.publish(message(b"%d" % number), outcomes, number)
    await world.end_session("home")
    await world.until(lambda: outcomes.confirms == [1, 2])
    assert world.vhost.queues["q"].message_count == 1


async def test_what_a_full_queue_refuses_is_rejected_when_it_is_published_again(
    world: ShellWorld, outcomes: Outcomes
) -> None:
    """3-10."""
    limits = [("x-max-length", Field("I", 1)), ("x-overflow", Field("S", b"reject-publish"))]
    await world.add_node("home")
    await world.follow(LEADER, arguments=Table(limits))
    for number in (1, 2):
        world.remote.publish(message(b"m"), outcomes, number)
    world.remote.publish(message(b"m"), None, 3)
    await world.end_session("home")
    await world.until(lambda: outcomes.refusals and outcomes.confirms)
    assert (outcomes.confirms, outcomes.refusals) == ([1], [2])


async def test_clients_of_a_deposed_master_wait_for_its_successor(
    world: ShellWorld, outcomes: Outcomes
) -> None:
    """The successor is asked to take what had no answer, and to serve the consumers."""
    await world.add_node("b")
    host = await world.lead()
    queue, master = world.vhost.queues["q"], host.replica.master
    client = RemoteClient()
    consumer = Consumer(queue, client.deliveries, "tag", False, 1)
    queue.add_consumer(consumer)
    me, other = host.replica.record.members[0], member_of("b", 2)
    group = replace(
        led_by(me, other), uid=host.replica.uid, view=50, epoch=host.replica.record.epoch
    )
    await world.put_group(group)
    queue.publish(message(b"1"), outcomes, 1)
    assert outcomes.confirms == []
    await world.put_group(
        replace(
            group,
            view=51,
            epoch=group.epoch + 1,
            leader=other.id,
            members=(other,),
            insync=(other.id,),
            recoverable=("b", "a"),
        )
    )
    await world.until(lambda: isinstance(world.vhost.queues["q"], RemoteQueue))
    assert world.links.moved == [queue]
    assert (master.is_deposed, world.remote.asker.node) == (True, "b")
    assert [entry.sequence for entry in world.remote.unconfirmed] == [1]
    assert world.remote.give_up_here()[0] == [consumer]
    assert (outcomes.confirms, outcomes.refusals) == ([], [])
    assert (client.bodies(), consumer.can_take()) == ([b"1"], True)


async def test_a_priority_queue_keeps_a_copy_of_each_level(world: ShellWorld) -> None:
    """3-36."""
    await world.add_node("home")
    host = await world.follow(LEADER, arguments=PRIORITIES)
    await world.end_session("home")
    await world.until(lambda: host.replica.master is not None)
    queue = world.vhost.queues["q"]
    assert isinstance(queue, Queue)
    assert queue.publish(message(b"1"), None, 0) == TAKEN
    assert list(host.replica.master.level_queues()) == [0]


async def test_ids_of_a_deduplicating_queue_are_told_to_mirrors(world: ShellWorld) -> None:
    await world.lead(arguments=DEDUPLICATING)
    queue = world.vhost.queues["q"]
    assert isinstance(queue, DeduplicatingQueue)
    assert isinstance(queue.backing, MasterBacking)


# Streams.


async def test_a_stream_is_mirrored_and_goes_on_without_mirrors(world: ShellWorld) -> None:
    host = await world.lead(arguments=STREAM)
    queue = world.vhost.queues["q"]
    assert isinstance(queue, StreamQueue)
    assert isinstance(host.replica.master, StreamMaster)
    assert host.levels_left() == {}
    await world.broker.policies.clear("/", "p")
    await world.until(lambda: NAME not in world.shell.view.groups)
    assert not isinstance(queue.backing, StreamMaster)


async def test_a_mirror_of_a_stream_is_promoted(world: ShellWorld, outcomes: Outcomes) -> None:
    await world.add_node("home")
    host = await world.follow(LEADER, arguments=STREAM)
    assert world.shell.node.stream_mirror_in_sync(NAME) is host.replica.mirror
    assert host.levels_left() == {0: host.replica.mirror.log}
    world.remote.publish(message(b"1"), outcomes, 1)
    await world.end_session("home")
    await world.until(lambda: outcomes.confirms == [1])
    assert isinstance(world.vhost.queues["q"], StreamQueue)
    assert world.shell.node.stream_mirror_in_sync(NAME) is None


async def test_consumers_of_a_deposed_streams_master_go_on_elsewhere(world: ShellWorld) -> None:
    await world.add_node("b")
    host = await world.lead(arguments=STREAM)
    other = member_of("b", 2)
    record = host.replica.record
    await world.put_group(
        replace(
            record,
            view=51,
            epoch=record.epoch + 1,
            leader=other.id,
            members=(other,),
            insync=(other.id,),
            recoverable=("b", "a"),
        )
    )
    await world.until(lambda: isinstance(world.vhost.queues["q"], RemoteQueue))
    assert host.is_abandoned


# Publishes of other nodes.


async def test_the_inbox_of_a_mirrored_queue_knows_how_far_another_nodes_publishes_came(
    world: ShellWorld,
) -> None:
    """3-21: a publish that the mirror had before it was promoted is not taken twice."""
    queue = await world.declare()
    opened = OpenQueue(1, "/", "q", 1, "c/1")
    assert make_inbox(queue, opened).received == 0
    await world.mirror_all()
    await world.until(world.shell.node.led)
    queue.backing.numbers["c/1"] = 7
    assert make_inbox(queue, opened).received == 7


async def test_a_master_that_does_not_know_another_node_takes_what_that_sent_for_doubtful(
    world: ShellWorld,
) -> None:
    """It began again with what its disk had, and may have delivered those publishes before."""
    queue = await world.declare()
    await world.mirror_all()
    await world.until(world.shell.node.led)
    opened = OpenQueue(1, "/", "q", 1, "c/1", 0, 5)
    assert make_inbox(queue, opened).doubtful == 5
    queue.backing.numbers["c/1"] = 2
    assert make_inbox(queue, opened).doubtful == 0, "it knows what has arrived"
