"""Control messages of a link: what each end does with every kind, and with what makes no sense."""

from __future__ import annotations

import asyncio

import pytest

from link_world import LinkWorld, Outcomes, RemoteClient, message
from warren.channels.reply_registry import ReplyDesk, ReplyRegistry
from warren.cluster.link import client as asker_module
from warren.cluster.link.client import reply_desk_of
from warren.cluster.link.control import (
    AnswerPart,
    Applied,
    BecomeMirror,
    CancelConsumer,
    CloseQueue,
    Control,
    Counted,
    Counts,
    Dismiss,
    Done,
    Get,
    Gone,
    Grant,
    Held,
    HeldCopy,
    MalformedControl,
    NoSuchQueue,
    OpenQueue,
    Ping,
    QueueOpened,
    WantMore,
    decode_control,
    encode_acked,
    encode_control,
)
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.link.stream_places import StreamPlaces
from warren.cluster.link.unconfirmed import Unconfirmed
from warren.metadata.store import MetadataError
from warren.model.errors import QueueGone, SoftError
from warren.model.fields import Table
from warren.queues.boundary import REJECTED, TAKEN, AbstractQueue
from warren.queues.settings import QueueSettings
from warren.streams.consumer_offsets import ARGUMENT
from warren.streams.offset_header import with_offset_slowly
from warren.wire.codec import FrameReader, Message, MethodFrame, PropertyBlock

NACK_7 = b"\x00\x3c\x00\x78" + (7).to_bytes(8, "big") + b"\x02"


def nothing() -> None:
    pass


class Listener:
    """A node that notes how far others have come."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def applied(self, node: str, revision: int) -> None:
        self.told.append((node, revision))

    def resumed(self, queue: RemoteQueue) -> None: ...

    def master_missing(self, queue: RemoteQueue, node: str) -> None: ...


def to_server(link: LinkWorld, control: Control) -> list[Control]:
    """Tell the served end, and return what it says to that."""
    link.delegate.process([MethodFrame(0, encode_control(control))])
    frames = FrameReader(1 << 20, 1 << 20).feed(b"".join(link.around.output.take()))
    return [decode_control(frame.payload) for frame in frames]


def to_client(link: LinkWorld, control: Control) -> None:
    link.asker.process([MethodFrame(0, encode_control(control))])


# The end that asks.


@pytest.mark.parametrize(
    "news",
    [
        *(Gone(99), Ping(), Done(99, (1,)), AnswerPart(99, b"", True)),
        *(QueueOpened(99, 1), NoSuchQueue(99)),
    ],
)
async def test_news_of_what_nobody_waits_for_is_passed_over(link: LinkWorld, news: Control) -> None:
    to_client(link, news)
    assert link.asker_output.take() == []


@pytest.mark.parametrize("control", [Get(1, 1), CloseQueue(1), Grant(1, "1", 5), WantMore(1)])
async def test_what_only_the_asking_end_may_say_breaks_the_link_there(
    link: LinkWorld, control: Control
) -> None:
    with pytest.raises(MalformedControl, match="is not for the asking side"):
        to_client(link, control)


async def test_an_unknown_method_breaks_the_link_at_either_end(link: LinkWorld) -> None:
    for end in (link.asker, link.delegate):
        with pytest.raises(MalformedControl, match="method 00140029 on channel 3"):
            end.process([MethodFrame(3, b"\x00\x14\x00\x29")])
        with pytest.raises(MalformedControl):
            end.process([MethodFrame(0, encode_control(Ping())[:4] + b"\xc1")])


async def test_a_nack_of_a_channel_that_was_closed_is_passed_over(link: LinkWorld) -> None:
    link.asker.process([MethodFrame(5, NACK_7)])
    link.delegate.process([MethodFrame(5, NACK_7)])
    link.delegate.process([MethodFrame(5, encode_acked(1, 3))])
    assert link.around.output.take() == []


async def test_how_far_the_other_topology_has_come_is_told_to_whoever_asks(link: LinkWorld) -> None:
    listener = Listener()
    link.asker.listener = listener
    to_client(link, Applied(7))
    assert listener.told == [("home", 7)]
    link.asker.listener = asker_module.NOBODY_LISTENS
    to_client(link, Applied(8))
    assert listener.told == [("home", 7)]


async def test_a_queue_without_a_free_channel_is_as_good_as_down(
    link: LinkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = await link.declared("first")
    _, second = await link.declared("second")
    monkeypatch.setattr(asker_module, "LINK_HANDLES_MAX", 1)
    assert first.publish(message(b"m"), None, 0) == TAKEN
    assert second.publish(message(b"m"), None, 0) == REJECTED
    with pytest.raises(SoftError, match="is down or inaccessible"):
        await second.counts()
    first.require_available()


async def test_a_question_that_no_next_node_can_take_fails(
    link: LinkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, remote = await link.declared()
    remote.is_mirrored = True
    question = asyncio.ensure_future(remote.counts())
    await asyncio.sleep(0)
    nowhere = asker_module.LinkClient("nowhere", asyncio.get_running_loop().create_future)
    nowhere.lost()
    remote.move(nowhere)
    with pytest.raises(SoftError, match="home node 'nowhere'"):
        await question
    with pytest.raises(SoftError):
        remote.require_available()


async def test_frames_of_the_ring_are_lost_while_there_is_no_link(link: LinkWorld) -> None:
    link.asker.mirror_frames(b"one")
    link.move()
    assert link.around.heard == [b"one"]
    link.cut()
    link.asker.mirror_frames(b"two")
    link.connect()
    link.asker.mirror_frames(b"three")
    link.move()
    assert link.around.heard == [b"three"]


async def test_the_desk_for_replies_is_opened_without_a_name(link: LinkWorld) -> None:
    link.around.reply_desk = ReplyDesk(ReplyRegistry())
    outcomes = Outcomes()
    reply_desk_of(link.asker).publish(message(b"a reply to nobody any more"), outcomes, 1)
    link.move()
    assert outcomes.confirms == [1]
    assert link.around.reply_desk.counters.publish == 1


# The end that serves.


async def test_news_goes_to_whoever_wants_it_and_a_ping_comes_back(link: LinkWorld) -> None:
    news: list[Control] = [
        Counted(True, (("vhost", "/", 3),)),
        BecomeMirror("/", "q", "uid"),
        Held((HeldCopy("uid", "member", 2, 9),)),
    ]
    for each in news:
        assert to_server(link, each) == []
    assert link.around.heard == news
    assert to_server(link, Applied(11)) == []
    assert link.applied == [11]
    assert to_server(link, Ping()) == [Ping()]
    assert to_server(link, Dismiss(4)) == []
    assert link.around.inquired_of == [Dismiss(4)]


@pytest.mark.parametrize("control", [Done(1), QueueOpened(1, 1), Gone(1)])
async def test_what_only_the_served_end_may_say_breaks_the_link_there(
    link: LinkWorld, control: Control
) -> None:
    with pytest.raises(MalformedControl, match="is not for the asked side"):
        to_server(link, control)


async def test_requests_about_what_is_not_open_are_answered_and_news_is_passed_over(
    link: LinkWorld,
) -> None:
    assert to_server(link, Counts(3, 9)) == [Gone(3)]
    assert to_server(link, CancelConsumer(9, "1")) == []
    assert to_server(link, Grant(9, "1", 5)) == []
    assert to_server(link, CloseQueue(9)) == []
    assert to_server(link, OpenQueue(9, "/", "nowhere", 1)) == [NoSuchQueue(9)]
    assert to_server(link, OpenQueue(9, "no such vhost", "q", 1)) == [NoSuchQueue(9)]


async def test_a_frozen_node_fails_requests_and_does_nothing(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    queue.publish(message(b"m"), None, 0)
    link.around.is_frozen = True
    with pytest.raises(SoftError) as failed:
        await link.ask(remote.purge())
    assert (failed.value.code, failed.value.name) == (506, "RESOURCE_ERROR")
    assert queue.message_count == 1


async def test_a_queue_that_is_about_to_come_is_opened_when_it_does(link: LinkWorld) -> None:
    awaited = []

    def becomes_master(control: OpenQueue, again: object) -> bool:
        awaited.append((control, again))
        return True

    link.around.becomes_master = becomes_master  # type: ignore[method-assign,assignment]
    assert to_server(link, OpenQueue(1, "/", "q", 1)) == []
    assert to_server(link, OpenQueue(2, "/", "q", 1)) == []
    assert to_server(link, CloseQueue(2)) == []
    await link.declared()
    for control, again in awaited:
        again(control)  # type: ignore[operator]
    frames = FrameReader(1 << 20, 1 << 20).feed(b"".join(link.around.output.take()))
    opened = [decode_control(frame.payload) for frame in frames]
    assert opened == [QueueOpened(1, 0)], "the other was closed meanwhile"


async def test_a_queue_that_has_moved_on_is_closed_with_what_its_consumers_had(
    link: LinkWorld,
) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    await link.ask(remote.start_consumer(client.consumer(remote), nothing))
    queue.publish(message(b"m"), None, 0)
    link.move()
    assert client.bodies() == [b"m"]
    assert [len(each.unacked) for each in link.delegate.deliveries()] == [1]
    link.delegate.moved(queue)
    assert link.delegate.deliveries() == []
    assert (queue.message_count, queue.consumer_count) == (1, 0)


async def test_rejections_and_requeues_reach_the_queue(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    client = RemoteClient()
    await link.ask(remote.start_consumer(client.consumer(remote, prefetch=2), nothing))
    for number in range(2):
        queue.publish(message(b"%d" % number), None, 0)
    link.move()
    assert client.bodies() == [b"0", b"1"]
    client.deliveries.settle_rejected(client.deliveries.take(1, False))
    client.deliveries.settle_requeued(client.deliveries.take(2, False))
    link.move()
    assert client.bodies() == [b"1"], "again; the other is gone"


async def remove() -> None:
    raise AssertionError("the node of the master removes the queue")


async def test_a_delete_that_fails_is_told_and_the_queue_stays(link: LinkWorld) -> None:
    queue, remote = await link.declared()
    queue.publish(message(b"m"), None, 0)
    with pytest.raises(SoftError) as failed:
        await link.ask(remote.delete_if(False, True, remove))
    assert failed.value.code == 406

    async def unreachable(*_: object) -> int:
        raise MetadataError("no majority")

    vhost = link.world.broker.vhosts["/"]
    vhost.delete_queue = unreachable  # type: ignore[method-assign,assignment]
    with pytest.raises(SoftError) as failed:
        await link.ask(remote.delete_if(False, False, remove))
    assert (failed.value.code, failed.value.explanation) == (506, "no majority")
    assert not queue.is_deleted


# What becomes of a queue that this node served before.


async def test_a_queue_that_was_led_here_goes_on_elsewhere_with_all_that_had_no_answer(
    link: LinkWorld,
) -> None:
    queue, remote = await link.declared()
    outcomes, client = Outcomes(), RemoteClient()
    waiting = [Unconfirmed(n, outcomes, n, message(b"%d" % n)) for n in (4, 5)]
    consumer = client.consumer(remote)
    remote.begin_elsewhere(5, waiting, [consumer])
    assert consumer.queue is remote
    link.move()
    assert outcomes.confirms == [4, 5]
    taken = [queue.get(), queue.get()]
    assert [(each.message.body, each.redelivered) for each in taken if each is not None] == [
        (b"4", True),
        (b"5", True),
    ]
    assert remote.give_up_here() == ([consumer], []), "it is to be served by the next master"


async def test_a_queue_that_is_deleted_takes_publishes_for_nothing(link: LinkWorld) -> None:
    _, remote = await link.declared()
    remote.apply_settings(QueueSettings(max_length=3))
    assert remote.settings.max_length == 3
    remote.delete()
    assert remote.publish(message(b"m"), None, 0) == TAKEN
    assert link.asker_output.take() == []


async def test_a_question_about_a_queue_that_has_come_to_this_node_is_asked_again_here(
    link: LinkWorld,
) -> None:
    _, remote = await link.declared()
    question = asyncio.ensure_future(remote.counts())
    await asyncio.sleep(0)
    link.asker.drop_questions(remote)
    with pytest.raises(QueueGone):
        await question


# How far consumers of a stream have come.


def test_a_consumer_of_a_stream_goes_on_behind_the_last_record_it_has_had() -> None:
    def asked_for() -> object:
        field = consumer.arguments.get(ARGUMENT)
        return None if field is None else field.value

    places = StreamPlaces()
    consumer = RemoteClient().consumer(AbstractQueue())  # type: ignore[arg-type]
    places.go_on(consumer)
    assert asked_for() is None, "nothing is known of it yet"
    places.begun(consumer, 40)
    places.go_on(consumer)
    assert asked_for() == 40
    properties = PropertyBlock(with_offset_slowly(b"\0\0", 43))
    places.passed_on(consumer, Message(b"", properties, b"m"))
    places.go_on(consumer)
    assert asked_for() == 44
    places.forget(consumer)
    consumer.arguments = Table([])
    places.go_on(consumer)
    assert asked_for() is None
