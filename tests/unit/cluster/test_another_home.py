"""A mirrored queue whose home changes, as the channels of a node see it that is not its home."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from link_world import LinkWorld, Outcomes, RemoteClient, message
from warren.cluster.link.client import LinkClient
from warren.cluster.link.control import CloseQueue, OpenQueue, encode_control
from warren.cluster.link.remote_queue import RemoteQueue
from warren.model.errors import QueueGone
from warren.model.fields import Field, Table
from warren.queues.consumers import Consumer
from warren.queues.queue import Queue
from warren.wire.codec import MethodFrame


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[LinkWorld]:
    """A link to the next home."""
    (tmp_path / "other").mkdir()
    async with BrokerWorld(tmp_path / "other") as world:
        yield LinkWorld(world)


async def mirrored(link: LinkWorld, other: LinkWorld) -> tuple[RemoteQueue, Queue, Queue]:
    first, remote = await link.declared()
    second, _ = await other.declared()
    remote.is_mirrored = True
    return remote, first, second


def taken(queue: Queue) -> list[tuple[bytes, bool]]:
    found = []
    while (queued := queue.get()) is not None:
        found.append((queued.message.body, queued.redelivered))
    return found


def nothing() -> None:
    pass


async def test_what_a_former_home_may_have_delivered_comes_to_the_next_as_redelivered(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, _, second = await mirrored(link, other)
    outcomes = Outcomes()
    for i in range(3):
        remote.publish(message(b"%d" % i), outcomes, i)
    link.to_home()  # which opens the queue
    link.to_asker()  # and then they are sent
    link.to_home()
    link.asker.disconnected()
    remote.publish(message(b"3"), outcomes, 3)
    remote.move(other.asker)
    remote.publish(message(b"4"), outcomes, 4)
    other.move()
    assert outcomes.confirms == [0, 1, 2, 3, 4]
    before = [(b"%d" % i, True) for i in range(3)]
    assert taken(second) == [*before, (b"3", False), (b"4", False)]


@pytest.mark.parametrize("no_ack", [False, True])
async def test_a_consumer_that_takes_it_at_once_sees_that_it_may_have_been_delivered(
    link: LinkWorld, no_ack: bool
) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    await link.ask(remote.start_consumer(client.consumer(remote, no_ack), nothing))
    queue.publish_again(message(b"again"), None, 0)
    queue.publish(message(b"new"), None, 0)
    link.move()
    got = [(delivery.message.body, delivery.redelivered) for delivery in client.received()]
    assert got == [(b"again", True), (b"new", False)]


async def test_3_18_what_is_under_way_to_a_queue_that_is_deleted_is_confirmed(
    link: LinkWorld,
) -> None:
    _, remote = await link.declared()
    outcomes = Outcomes()
    for i in range(3):
        remote.publish(message(b"m"), outcomes, i)
    remote.delete()
    assert (outcomes.confirms, outcomes.refusals) == ([0, 1, 2], [])
    assert link.asker.credit.bytes_used == 0


async def test_a_home_that_is_one_no_more_answers_nothing_and_says_so_when_asked(
    link: LinkWorld, other: LinkWorld
) -> None:
    """It would confirm what the next home never gets."""
    remote, first, second = await mirrored(link, other)
    outcomes = Outcomes()
    remote.publish(message(b"0"), outcomes, 0)
    link.move()
    first.stop()
    link.delegate.moved(first)
    remote.publish(message(b"1"), outcomes, 1)
    link.move()
    assert outcomes.confirms == [0]
    with pytest.raises(QueueGone):
        await link.ask(remote.counts())
    remote.move(other.asker)
    other.move()
    assert outcomes.confirms == [0, 1]
    assert taken(second) == [(b"1", True)]


async def test_a_home_that_was_frozen_with_answers_due_and_is_one_no_more_keeps_them(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, first, _ = await mirrored(link, other)
    outcomes = Outcomes()
    remote.publish(message(b"0"), outcomes, 0)
    link.to_home()
    link.to_asker()
    link.to_home()
    assert link.around.due
    first.stop()
    link.delegate.moved(first)
    link.to_asker()
    assert outcomes.confirms == []


async def test_a_handle_that_was_closed_is_not_opened_when_the_queue_comes_home(
    link: LinkWorld,
) -> None:
    """It may stand for another queue by then."""
    again = []
    link.around.becomes_master = lambda control, do: not again.append((control, do))  # type: ignore[func-returns-value,method-assign]
    for control in (OpenQueue(7, "/", "q", 1), CloseQueue(7)):
        link.delegate.process([MethodFrame(0, encode_control(control))])
    await link.declared()
    ((control, do),) = again
    do(control)
    assert not link.delegate.deliveries()
    link.delegate.process([MethodFrame(0, encode_control(control))])
    assert len(link.delegate.deliveries()) == 1


def consumer_of(remote: RemoteQueue, client: RemoteClient, cancelled: list[Consumer]) -> Consumer:
    consumer = client.consumer(remote)
    consumer.on_cancelled = cancelled.append
    return consumer


async def test_a_consumer_comes_home_that_the_last_home_was_being_asked_to_serve(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, _, _ = await mirrored(link, other)
    cancelled: list[Consumer] = []
    consumer = consumer_of(remote, RemoteClient(), cancelled)
    await link.ask(remote.start_consumer(consumer, nothing))
    link.cut()
    remote.move(other.asker)
    other.move()
    resuming = asyncio.ensure_future(remote.resume_consumers())
    await asyncio.sleep(0)
    consumers, _ = remote.give_up_here()
    await asyncio.wait_for(resuming, 60)
    assert (consumers, cancelled) == ([consumer], [])


async def test_a_consumer_that_wants_to_know_is_cancelled_though_it_is_not_served_yet(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, _, second = await mirrored(link, other)
    cancelled: list[Consumer] = []
    consumer = consumer_of(remote, RemoteClient(), cancelled)
    consumer.arguments = Table([("x-cancel-on-ha-failover", Field("t", True))])
    await link.ask(remote.start_consumer(consumer, nothing))
    link.cut()
    link.connect()  # to the same home, which is asked to serve it again
    link.move()
    resuming = asyncio.ensure_future(remote.resume_consumers())
    await asyncio.sleep(0)
    link.cut()
    remote.move(other.asker)
    await other.ask(resuming)
    assert cancelled == [consumer]
    other.move()
    assert second.consumer_count == 0


async def test_consumers_asked_for_at_one_home_and_served_by_the_next_are_told_apart(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, _, second = await mirrored(link, other)
    cancelled: list[Consumer] = []
    served, asking = (consumer_of(remote, RemoteClient(), cancelled) for _ in range(2))
    await link.ask(remote.start_consumer(served, nothing))
    starting = asyncio.ensure_future(remote.start_consumer(asking, nothing))
    await asyncio.sleep(0)
    link.cut()
    remote.move(other.asker)
    other.move()
    await other.ask(starting)
    await other.ask(remote.resume_consumers())
    assert (second.consumer_count, cancelled) == (2, [])
    assert set(remote.consumers.values()) == {served, asking}


async def test_a_question_that_begins_after_the_queue_has_come_home_is_asked_again_there(
    link: LinkWorld, other: LinkWorld
) -> None:
    """What is asked is a coroutine, and a node may be promoted before its first step."""
    remote, _, _ = await mirrored(link, other)
    starting = remote.start_consumer(consumer_of(remote, RemoteClient(), []), nothing)
    remote.give_up_here()
    with pytest.raises(QueueGone):
        await asyncio.wait_for(starting, 60)


async def test_who_waits_for_a_home_hears_that_the_queue_is_deleted(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, _, _ = await mirrored(link, other)
    remote.move(LinkClient("", asyncio.get_running_loop().create_future))
    question = asyncio.ensure_future(remote.counts())
    await asyncio.sleep(0)
    remote.delete()
    with pytest.raises(QueueGone):
        await asyncio.wait_for(question, 60)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_consumer_whose_prefetch_is_full_is_sent_all_of_it_again_by_the_next_home(
    link: LinkWorld, other: LinkWorld, is_shared: bool
) -> None:
    """To settle what the first home sent is no mistake, and has no effect."""
    remote, first, second = await mirrored(link, other)
    client = RemoteClient()
    client.deliveries.prefetch_limit = 2 * is_shared
    consumer = client.consumer(remote, prefetch=2 * (not is_shared))
    for body in (b"1", b"2", b"3"):
        first.publish(message(body), None, 0)
        second.publish(message(body), None, 0)
    await link.ask(remote.start_consumer(consumer, nothing))
    assert client.bodies() == [b"1", b"2"]
    link.cut()
    remote.move(other.asker)
    other.move()
    await other.ask(remote.resume_consumers())
    assert client.bodies() == [b"1", b"2"]
    client.deliveries.ack(2, multiple=True)
    other.move()
    assert (client.bodies(), second.backing.unacked_count) == ([], 2 + is_shared)
    client.deliveries.ack(4, multiple=True)
    other.move()
    assert (client.bodies(), second.backing.unacked_count) == ([b"3"], 1)


async def test_a_consumer_that_comes_home_with_its_prefetch_full_has_room(
    link: LinkWorld, other: LinkWorld
) -> None:
    remote, first, _ = await mirrored(link, other)
    client = RemoteClient()
    consumer = client.consumer(remote, prefetch=1)
    first.publish(message(b"1"), None, 0)
    first.publish(message(b"2"), None, 0)
    await link.ask(remote.start_consumer(consumer, nothing))
    assert (client.bodies(), consumer.can_take()) == ([b"1"], False)
    remote.give_up_here()
    assert consumer.can_take()
    client.deliveries.ack(1, multiple=False)
    assert consumer.unacked == 0


async def test_an_acknowledgement_that_is_not_committed_counts_until_it_is(
    link: LinkWorld, other: LinkWorld
) -> None:
    """A transaction has taken the delivery from the channel: its commit releases it."""
    remote, first, _ = await mirrored(link, other)
    client = RemoteClient()
    consumer = client.consumer(remote, prefetch=2)
    first.publish(message(b"1"), None, 0)
    first.publish(message(b"2"), None, 0)
    await link.ask(remote.start_consumer(consumer, nothing))
    taken_out = client.deliveries.take(1, multiple=False)
    link.cut()
    assert consumer.unacked == 1
    client.deliveries.settle_acked(taken_out)
    assert consumer.unacked == 0


async def test_a_consumer_that_goes_while_a_deposed_master_waits_is_served_by_nobody(
    link: LinkWorld, other: LinkWorld
) -> None:
    """Its connection has ended: deliveries to it would come back from nobody."""
    former, _, _ = await mirrored(link, other)
    waiting = LinkClient("", asyncio.get_running_loop().create_future)
    remote = RemoteQueue(former.record, former.settings, waiting)
    remote.is_mirrored = True
    stays, goes = (consumer_of(remote, RemoteClient(), []) for _ in range(2))
    remote.begin_elsewhere(0, [], [stays, goes])
    remote.remove_consumer(goes)
    consumers, _ = remote.give_up_here()
    assert consumers == [stays]
