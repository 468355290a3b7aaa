"""A queue of another node, asked and served over a link."""

from __future__ import annotations

import asyncio
import random

import pytest

from link_world import FRAME_MAX, LinkWorld, Outcomes, RemoteClient, message
from warren.cluster.link.control import ACKED_IDS, MalformedControl, decode_acked
from warren.cluster.link.publishes import still_asked_about
from warren.cluster.link.remote_queue import RemoteQueue
from warren.model.errors import QueueGone, SoftError
from warren.model.limits import LINK_UNCONFIRMED_BYTES_MAX, LINK_WINDOW_DELIVERIES
from warren.queues.boundary import PENDING, REJECTED, TAKEN
from warren.queues.settings import Overflow, QueueSettings
from warren.wire.codec import FrameReader, MethodFrame, QueuedMessage


def nothing() -> None:
    pass


async def never(register: object) -> None:
    raise AssertionError("the other node waits for its disk, nobody else")


async def remove() -> None:
    raise AssertionError("the master removes its queue")


def bodies_of(queue: object) -> list[bytes]:
    taken: list[QueuedMessage] = []
    while (queued := queue.get()) is not None:  # type: ignore[attr-defined]
        taken.append(queued)
    return [queued.message.body for queued in taken]


async def test_what_is_published_here_is_at_its_home_in_order(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    for i in range(100):
        assert remote.publish(message(b"%d" % i), None, 0) == TAKEN
    link.move()
    assert bodies_of(queue) == [b"%d" % i for i in range(100)]


async def test_a_confirm_comes_from_the_home(link: LinkWorld) -> None:
    _, remote = await link.declared()
    outcomes = Outcomes()
    assert [remote.publish(message(b"m"), outcomes, n) for n in (7, 8)] == [PENDING, PENDING]
    link.to_home()
    assert outcomes.confirms == [], "before the home has answered nothing is confirmed"
    link.move()
    assert outcomes.confirms == [7, 8]
    assert not remote.unconfirmed
    assert link.asker.credit.bytes_used == 0


async def test_what_the_home_refuses_is_refused_here(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    outcomes = Outcomes()
    limits = QueueSettings(max_length=1, overflow=Overflow.REJECT_PUBLISH)
    queue.apply_settings(limits)
    for n in (1, 2, 3):
        remote.publish(message(b"%d" % n), outcomes, n)
    link.move()
    assert (outcomes.confirms, outcomes.refusals) == ([1], [2, 3])


async def test_publishes_without_an_answer_are_sent_again_and_taken_once(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    outcomes = Outcomes()
    for i in range(3):
        remote.publish(message(b"%d" % i), outcomes, i)
    link.move()
    for i in range(3, 6):
        remote.publish(message(b"%d" % i), outcomes, i)
    link.to_home()  # they arrive, but the answer is lost with the link
    link.cut()
    for i in range(6, 9):
        assert remote.publish(message(b"%d" % i), outcomes, i) == PENDING
    link.connect()
    link.move()
    assert outcomes.confirms == list(range(9))
    assert bodies_of(queue) == [b"%d" % i for i in range(9)]


async def test_a_node_with_another_session_waits_for_what_its_process_published_before(
    link: LinkWorld,
) -> None:
    """What has arrived and is not safe yet is not confirmed by another session, nor taken twice."""
    queue, remote = await link.declared()
    remote.origin = "asker/1"
    outcomes = Outcomes()
    link.asker.open(remote)
    link.move()
    remote.publish(message(b"1"), outcomes, 1)
    link.to_home()
    inbox = link.inboxes[queue]
    assert inbox.wait_for_all(1), "as if a mirror had yet to write it"
    link.cut()
    link.inboxes = still_asked_about(link.inboxes)
    link.connect()
    link.move()
    assert outcomes.confirms == []
    inbox.confirmed(1)
    link.move()
    assert outcomes.confirms == [1]
    assert bodies_of(queue) == [b"1"]


async def test_another_process_of_a_node_counts_from_the_beginning(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    remote.origin = "asker/1"
    remote.publish(message(b"old"), None, 0)
    link.move()
    link.cut()
    restarted = RemoteQueue(remote.record, QueueSettings(), link.asker)
    restarted.origin = "asker/2"
    link.inboxes = still_asked_about(link.inboxes)
    link.connect()
    restarted.publish(message(b"new"), None, 0)
    link.move()
    assert bodies_of(queue) == [b"old", b"new"]


async def test_inboxes_of_deleted_queues_are_not_kept_for_another_session(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    remote.origin = "asker/1"
    remote.publish(message(b"1"), None, 0)
    link.move()
    assert list(still_asked_about(link.inboxes)) == [queue]
    queue.is_deleted = True
    assert still_asked_about(link.inboxes) == {}


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_a_home_may_have_delivered_before_it_was_restarted_is_marked(
    link: LinkWorld, is_restarted: bool
) -> None:
    queue, remote = await link.declared()
    outcomes = Outcomes()
    link.asker.open(remote)
    link.move()
    remote.publish(message(b"1"), outcomes, 1)
    link.cut()
    remote.publish(message(b"2"), outcomes, 2)
    link.connect("second" if is_restarted else "first")
    link.move()
    remote.publish(message(b"3"), outcomes, 3)
    link.move()
    found = [queue.get() for _ in range(3)]
    marks = [(each.message.body, each.redelivered) for each in found if each is not None]
    assert marks == [(b"1", is_restarted), (b"2", False), (b"3", False)]


@pytest.mark.parametrize("seed", range(30))
async def test_links_that_break_anywhere_lose_and_double_nothing(
    link: LinkWorld, seed: int
) -> None:
    chance = random.Random(seed)
    queue, remote = await link.declared()
    outcomes = Outcomes()
    for i in range(200):
        remote.publish(message(b"%d" % i), outcomes, i)
        match chance.randrange(12):
            case 0:
                link.to_home()
            case 1:
                link.to_asker()
            case 2:
                link.cut()
                link.connect()
            case 3:
                link.move()
    link.move()
    assert outcomes.confirms == list(range(200)), f"seed {seed}"
    assert bodies_of(queue) == [b"%d" % i for i in range(200)], f"seed {seed}"


async def test_when_the_home_is_lost_what_was_under_way_is_refused(link: LinkWorld) -> None:
    _, remote = await link.declared()
    outcomes = Outcomes()
    remote.publish(message(b"m"), outcomes, 1)
    link.asker.lost()
    assert outcomes.refusals == [1]
    assert remote.publish(message(b"m"), outcomes, 2) == REJECTED
    assert link.asker.credit.bytes_used == 0
    with pytest.raises(SoftError, match="home node 'home' of durable queue 'q'"):
        await remote.counts()


async def test_publishers_are_held_when_too_much_is_under_way(link: LinkWorld) -> None:
    _, remote = await link.declared()
    link.cut()
    body = bytes(1 << 20)
    for _ in range(LINK_UNCONFIRMED_BYTES_MAX // len(body)):
        remote.publish(message(body), None, 0)
    assert link.asker.credit.is_exhausted
    link.connect()
    link.move()
    assert not link.asker.credit.is_exhausted


async def test_consumers_are_served_and_their_acks_reach_the_home(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    started: list[str] = []
    await link.ask(remote.start_consumer(client.consumer(remote), lambda: started.append("ok")))
    assert started == ["ok"]
    assert await link.ask(remote.counts()) == (0, 1)
    for i in range(3):
        remote.publish(message(b"%d" % i), None, 0)
    link.move()
    received = client.received()
    assert [delivery.message.body for delivery in received] == [b"0", b"1", b"2"]
    (handle,) = link.delegate._handles.values()
    assert len(handle.deliveries.unacked) == 3
    client.deliveries.ack(received[1].delivery_tag, multiple=True)
    link.move()
    assert len(handle.deliveries.unacked) == 1
    client.deliveries.settle_requeued(client.deliveries.take_all())
    link.move()
    assert [(d.message.body, d.redelivered) for d in client.received()] == [(b"2", True)]
    assert queue.message_count == 0


async def test_prefetch_is_kept_by_the_home(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    await link.ask(remote.start_consumer(client.consumer(remote, prefetch=2), nothing))
    for i in range(5):
        queue.publish(message(b"%d" % i), None, 0)
    link.move()
    first = client.received()
    assert [d.message.body for d in first] == [b"0", b"1"]
    client.deliveries.ack(first[0].delivery_tag, multiple=False)
    link.move()
    assert client.bodies() == [b"2"]


async def test_a_client_that_takes_nothing_is_sent_a_window_full_and_no_more(
    link: LinkWorld,
) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    client.output.is_congested = True
    await link.ask(remote.start_consumer(client.consumer(remote, no_ack=True), nothing))
    for i in range(2 * LINK_WINDOW_DELIVERIES):
        queue.publish(message(b"%d" % i), None, 0)
    link.move()
    assert queue.message_count == LINK_WINDOW_DELIVERIES
    assert client.received() == []
    client.output.is_congested = False
    waiting, client.output.waiting = client.output.waiting, []
    for consumer in waiting:
        consumer.wake()
    link.move()
    assert client.bodies() == [b"%d" % i for i in range(2 * LINK_WINDOW_DELIVERIES)]


async def test_a_cut_link_gives_unacked_messages_back_and_cancels_consumers(
    link: LinkWorld,
) -> None:
    """3-26: and tags from before remove nothing."""
    queue, remote = await link.declared()
    client = RemoteClient()
    consumer = client.consumer(remote)
    cancelled: list[object] = []
    consumer.on_cancelled = cancelled.append
    await link.ask(remote.start_consumer(consumer, nothing))
    queue.publish(message(b"m"), None, 0)
    link.move()
    (delivery,) = client.received()
    link.cut()
    assert cancelled == [consumer]
    assert (queue.message_count, queue.consumer_count) == (1, 0)
    link.connect()
    link.move()
    client.deliveries.ack(delivery.delivery_tag, multiple=False)
    link.move()
    assert queue.message_count == 1, "an ack of what came over an older link is void"


async def test_get_fetches_from_the_home_and_says_how_many_are_left(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    for i in range(2):
        queue.publish(message(b"%d" % i), None, 0)
    queued, left = await link.ask(remote.fetch(never))
    assert (queued.message.body, left) == (b"0", 1)
    remote.acked([queued])
    await link.ask(remote.fetch(never))
    assert await link.ask(remote.fetch(never)) == (None, 0)


async def test_purge_and_delete_are_done_at_the_home(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    for _ in range(3):
        queue.publish(message(b"m"), None, 0)
    with pytest.raises(SoftError, match="not empty"):
        await link.ask(remote.delete_if(False, True, remove))
    assert await link.ask(remote.purge()) == 3
    queue.publish(message(b"m"), None, 0)
    assert await link.ask(remote.delete_if(False, False, remove)) == 1
    assert "q" not in link.world.vhost.queues


async def test_an_exclusive_consumer_elsewhere_is_in_the_way_here(link: LinkWorld) -> None:
    _, remote = await link.declared()
    client = RemoteClient()
    first = client.consumer(remote)
    first.exclusive = True
    await link.ask(remote.start_consumer(first, nothing))
    with pytest.raises(SoftError, match="in exclusive use"):
        await link.ask(remote.start_consumer(client.consumer(remote), nothing))


async def test_a_deleted_queue_cancels_the_consumers_of_other_nodes(link: LinkWorld) -> None:
    _, remote = await link.declared()
    client = RemoteClient()
    consumer = client.consumer(remote)
    cancelled: list[object] = []
    consumer.on_cancelled = cancelled.append
    await link.ask(remote.start_consumer(consumer, nothing))
    await link.world.vhost.delete_queue("q", False, False, "")
    link.move()
    assert cancelled == [consumer]


async def test_a_queue_that_is_not_there_refuses_what_was_sent(link: LinkWorld) -> None:
    _, remote = await link.declared()
    await link.world.vhost.delete_queue("q", False, False, "")
    outcomes = Outcomes()
    remote.publish(message(b"m"), outcomes, 1)
    link.move()
    assert outcomes.refusals == [1]


async def test_a_home_that_dies_after_it_deleted_a_queue_leaves_nobody_waiting(
    link: LinkWorld,
) -> None:
    """It could not answer any more, but the queue is gone, as was asked for."""
    _, remote = await link.declared()
    deleting = asyncio.ensure_future(remote.delete_if(False, False, remove))
    await asyncio.sleep(0)
    remote.delete()  # the store has told of it
    link.asker.lost()
    assert await asyncio.wait_for(deleting, 10) == 0


async def test_questions_fail_and_publishes_are_refused_until_the_home_can_be_reached_again(
    link: LinkWorld,
) -> None:
    queue, remote = await link.declared()
    answers = Outcomes()
    link.cut()
    asking = asyncio.ensure_future(remote.counts())
    assert remote.publish(message(b"1"), answers, 1) == PENDING
    await asyncio.sleep(0)
    link.asker.lost()
    with pytest.raises(SoftError, match="is down or inaccessible"):
        await asyncio.wait_for(asking, 10)
    with pytest.raises(SoftError, match="is down or inaccessible"):
        remote.require_available()
    assert answers.refusals == [1]
    assert remote.publish(message(b"2"), answers, 2) == REJECTED
    link.connect()
    remote.require_available()
    assert remote.publish(message(b"3"), answers, 3) == PENDING
    link.move()
    assert answers.confirms == [3]
    assert bodies_of(queue) == [b"3"]


async def test_acknowledgements_of_many_reach_the_home_as_one_and_skip_what_is_not_meant(
    link: LinkWorld,
) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    for number in range(10):
        queue.publish(message(b"%d" % number), None, 0)
    await link.ask(remote.start_consumer(client.consumer(remote), nothing))
    assert len(client.bodies()) == 10
    link.asker_output.take()
    client.deliveries.settle_requeued(client.deliveries.take(4, False))
    link.move()  # and it is delivered again, with another tag
    client.deliveries.ack(8, True)
    octets = b"".join(link.asker_output.take())
    reader = FrameReader(FRAME_MAX, FRAME_MAX)
    sent = reader.feed(octets)
    assert [decode_acked(event.payload) for event in sent] == [(1, 3), (5, 4)]
    link.delegate.process(sent)
    assert [queued.message.body for queued in queue_unacked(link)] == [b"8", b"9", b"3"]


def queue_unacked(link: LinkWorld) -> list[QueuedMessage]:
    (handle,) = link.delegate._handles.values()
    return list(handle.deliveries.unacked.values())


async def test_acknowledgements_that_make_no_sense_break_the_link(link: LinkWorld) -> None:
    _, remote = await link.declared()
    remote.publish(message(b""), None, 0)
    link.move()
    with pytest.raises(MalformedControl):
        link.delegate.process([MethodFrame(remote.handle, ACKED_IDS + b"\0")])


async def test_a_queue_that_is_gone_at_its_home_is_not_a_home_that_is_down(link: LinkWorld) -> None:
    """This node has not heard yet that the queue was deleted."""
    _, unused = await link.declared("unused")
    _, used = await link.declared("used")
    assert await link.ask(used.counts()) == (0, 0)
    for name in ("unused", "used"):
        await link.world.vhost.delete_queue(name, False, False, "")
    for remote in (unused, used):
        with pytest.raises(QueueGone) as gone:
            await link.ask(remote.counts())
        assert gone.value.reply_text == f"NOT_FOUND - no {remote.record}"
