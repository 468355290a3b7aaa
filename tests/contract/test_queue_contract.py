"""The rules of `warren.queues.boundary`, by their numbers, for queues of every kind.

A rule that does not concern a kind is not tried with it; `unless` says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backing_worlds import TRANSIENT, Client, message
from queue_worlds import (
    KINDS,
    Channel,
    Classic,
    QueueWorld,
    Remote,
    Replies,
    answer,
    eventually,
    until,
)
from warren.model.errors import AmqpError, SoftError
from warren.queues.boundary import PENDING, REJECTED, TAKEN, Fetched, Holder, QueueCounts
from warren.queues.queue import Queue
from warren.queues.settings import Overflow, QueueSettings
from warren.wire.codec import Message, QueuedMessage

RULES = range(1, 12)

NO_QUEUE = dict.fromkeys(
    ("reply desk", "reply consumer"), "it passes answers on and keeps none: channels only publish"
)
UNSERVED = {"stored": "nobody serves it: it is known, and can be deleted"}
READ_IN_PLACE = {"stream": "records are read where they are, and never leave by that"}
tried: dict[int, list[str]] = {}


def rule(number: int, unless: dict[str, str] | None = None) -> Callable[[Any], Any]:
    """Try a rule with all kinds but those for which there is a reason not to."""
    exempt = unless or {}
    assert set(exempt) <= set(KINDS), "a reason for a kind that there is not"
    assert all(exempt.values()), "a reason says something"
    kinds = [kind for kind in KINDS if kind not in exempt]
    tried.setdefault(number, []).extend(kinds)
    return pytest.mark.parametrize("kind", kinds)


@pytest.fixture
async def world(kind: str, tmp_path: Path) -> AsyncIterator[QueueWorld]:
    world = KINDS[kind](tmp_path)
    await world.open()
    yield world
    await world.close()


def publish(world: QueueWorld, client: Client, sequence: int, sent: Message) -> int:
    return client.publish(lambda p, n: world.queue.publish(sent, p, n), sequence)


async def put(world: QueueWorld, *bodies: bytes) -> None:
    """Publish, and wait until all of it is safe."""
    client, pending = Client(), 0
    for number, body in enumerate(bodies, 1):
        pending += publish(world, client, number, message(body)) == PENDING
    await eventually(world, lambda: len(client.confirms) == pending)


async def fetch(world: QueueWorld) -> Fetched:
    fetched: Fetched = await answer(world, world.queue.fetch(until))
    if fetched.queued is not None:
        fetched.queued.holder = Holder(world.queue)
    return fetched


async def fetched(world: QueueWorld) -> QueuedMessage:
    queued = (await fetch(world)).queued
    assert queued is not None, "there is a message"
    return queued


async def counts(world: QueueWorld) -> QueueCounts:
    found: QueueCounts = await answer(world, world.queue.counts())
    return found


async def consume(world: QueueWorld, channel: Channel, **wanted: Any) -> Any:
    consumer = channel.consumer(world.queue, **wanted)
    await answer(world, world.queue.start_consumer(consumer, lambda: None))
    return consumer


def limit(world: QueueWorld, settings: QueueSettings) -> None:
    """Give the queue a limit, at the node that is its master."""
    queue = world.master if isinstance(world, Remote) else world.queue
    own = queue.settings
    queue.apply_settings(
        replace(settings, deduplicates=own.deduplicates, window_size=own.window_size)
    )


def test_every_rule_is_tried_and_every_kind_takes_part() -> None:
    assert sorted(tried) == list(RULES)
    assert {kind for kinds in tried.values() for kind in kinds} == set(KINDS)


@rule(1, unless=NO_QUEUE | UNSERVED | READ_IN_PLACE)
async def test_what_is_asked_first_is_done_first(world: QueueWorld) -> None:
    """Nothing is waited for between a publish and what follows it."""
    world.queue.publish(message(b"purged"), None, 0)
    assert await answer(world, world.queue.purge()) == 1
    world.queue.publish(message(b"stays"), None, 0)
    first = await fetched(world)
    world.queue.requeued([first])
    world.queue.publish(message(b"follows"), None, 0)
    assert [(await fetched(world)).message.body for _ in range(2)] == [b"stays", b"follows"]


@rule(2, unless=UNSERVED)
async def test_publishers_are_answered_once_and_not_before_publish_has_returned(
    world: QueueWorld,
) -> None:
    client, pending = Client(), []
    for number in range(1, 21):
        sent = message(bytes(number * 100)) if number % 2 else message(b"m", TRANSIENT)
        outcome = publish(world, client, number, sent)
        assert outcome in (TAKEN, PENDING)
        pending += [number] if outcome == PENDING else []
    await eventually(world, lambda: len(client.confirms) >= len(pending))
    for _ in range(10):
        await world.pass_time()
    assert (sorted(client.confirms), client.refusals, client.too_early) == (pending, [], [])


@rule(2, unless=UNSERVED)
async def test_without_a_publisher_a_message_is_taken(world: QueueWorld) -> None:
    assert world.queue.publish(message(b"m"), None, 0) == TAKEN


NO_LIMITS = NO_QUEUE | UNSERVED | {"stream": "retention limits a stream, by whole segments"}


@rule(2, unless=NO_LIMITS)
@pytest.mark.parametrize(
    "limits", [QueueSettings(max_length=0), QueueSettings(max_length_bytes=10)]
)
async def test_a_message_that_is_dropped_as_soon_as_it_comes_is_answered_too(
    world: QueueWorld, limits: QueueSettings
) -> None:
    """Nobody needs it: its publisher must not wait for ever."""
    limit(world, limits)
    client = Client()
    outcome = publish(world, client, 1, message(bytes(100)))
    expected = [1] if outcome == PENDING else []
    await eventually(world, lambda: len(client.confirms) >= len(expected))
    assert (client.confirms, client.refusals, client.too_early) == (expected, [], [])
    assert (await counts(world)).ready == 0


@rule(2, unless=NO_LIMITS)
async def test_a_full_queue_that_rejects_says_so(world: QueueWorld) -> None:
    limit(world, QueueSettings(max_length=1, overflow=Overflow.REJECT_PUBLISH))
    client = Client()
    outcomes = [publish(world, client, number, message(b"m")) for number in (1, 2)]
    confirms = [1] if outcomes[0] == PENDING else []
    refusals = [2] if outcomes[1] == PENDING else []
    await eventually(
        world, lambda: len(client.confirms + client.refusals) == len(confirms + refusals)
    )
    assert (client.confirms, client.refusals) == (confirms, refusals)
    assert refusals or outcomes[1] == REJECTED
    assert (await counts(world)).ready == 1


@rule(3, unless=NO_QUEUE | UNSERVED | READ_IN_PLACE)
async def test_get_takes_the_oldest_and_tells_how_many_are_left(world: QueueWorld) -> None:
    await put(world, b"a", b"b")
    found = [await fetch(world) for _ in range(3)]
    assert [(f.queued and f.queued.message.body, f.messages_left) for f in found] == [
        (b"a", 1),
        (b"b", 0),
        (None, 0),
    ]


@rule(
    3,
    unless=NO_QUEUE
    | UNSERVED
    | READ_IN_PLACE
    | {"remote": "another node has to be asked", "lazy": "its disk has to be read"},
)
async def test_a_queue_of_this_node_with_its_head_in_memory_answers_at_once(
    world: QueueWorld,
) -> None:
    await put(world, b"m")
    assert world.queue.counts() == (1, 0)
    answered = world.queue.fetch(until)
    assert isinstance(answered, Fetched)
    assert answered.queued is not None
    assert world.queue.purge() == 0


@rule(3, unless={kind: "it has messages to get" for kind in KINDS if kind != "stream"})
async def test_a_stream_refuses_get_and_purge(world: QueueWorld) -> None:
    for ask in (lambda: world.queue.fetch(until), world.queue.purge):
        with pytest.raises(AmqpError, match="not supported by stream queues"):
            await answer(world, ask())


@rule(4, unless=NO_QUEUE | UNSERVED | READ_IN_PLACE)
async def test_what_is_acknowledged_or_rejected_is_gone(world: QueueWorld) -> None:
    await put(world, b"a", b"b", b"c")
    first, second = await fetched(world), await fetched(world)
    world.queue.rejected([second])
    world.queue.acked([first])
    assert (await fetched(world)).message.body == b"c"
    assert (await fetch(world)).queued is None


@rule(4, unless=NO_QUEUE | UNSERVED | READ_IN_PLACE)
async def test_what_is_requeued_is_where_it_was_and_marked(world: QueueWorld) -> None:
    await put(world, b"a", b"b", b"c")
    first, second = await fetched(world), await fetched(world)
    assert not first.redelivered
    world.queue.requeued([second])
    world.queue.requeued([first])
    again = [await fetched(world) for _ in range(3)]
    assert [(q.message.body, q.redelivered) for q in again] == [
        (b"a", True),
        (b"b", True),
        (b"c", False),
    ]


@rule(5, unless=NO_QUEUE | UNSERVED)
async def test_counts_are_those_of_the_whole_queue(world: QueueWorld) -> None:
    assert await counts(world) == (0, 0)
    await put(world, b"a", b"b", b"c")
    assert await counts(world) == (3, 0)
    await consume(world, Channel(), prefetch=1)
    ready, consumers = await counts(world)
    assert consumers == 1
    assert ready in (2, 3), "a stream keeps what it delivers"


@rule(5, unless={kind: "it is on this node" for kind in KINDS if kind != "remote"})
async def test_consumers_and_messages_of_other_nodes_count(world: QueueWorld) -> None:
    assert isinstance(world, Remote)
    world.master.publish(message(b"m"), None, 0)
    world.master.publish(message(b"n"), None, 0)
    world.master.add_consumer(Channel().consumer(world.master, prefetch=1))
    assert await counts(world) == (1, 1)


@rule(6, unless=NO_QUEUE | UNSERVED | READ_IN_PLACE)
async def test_a_purge_leaves_what_clients_have(world: QueueWorld) -> None:
    await put(world, b"a", b"b", b"c", b"d")
    first = await fetched(world)
    assert await answer(world, world.queue.purge()) == 3
    world.queue.requeued([first])
    again = await fetched(world)
    assert (again.message.body, again.redelivered) == (b"a", True)
    assert await answer(world, world.queue.purge()) == 0


@rule(7, unless=NO_QUEUE | UNSERVED)
async def test_a_consumer_is_started_once_before_its_first_delivery(world: QueueWorld) -> None:
    channel, seen = Channel(), []
    consumer = channel.consumer(world.queue, prefetch=10)
    asked = world.queue.start_consumer(consumer, lambda: seen.append(channel.read()))
    await answer(world, asked)
    await put(world, b"m")
    received: list[tuple[bytes, bool]] = []
    await eventually(world, lambda: bool(received.extend(channel.read()) or received))
    assert (seen, received) == ([[]], [(b"m", False)])


@rule(
    7,
    unless=NO_QUEUE
    | UNSERVED
    | {"stream": "any number may read, and being exclusive means nothing"},
)
async def test_a_consumer_that_may_not_come_is_not_started(world: QueueWorld) -> None:
    await consume(world, Channel())
    exclusive, started = Channel().consumer(world.queue), []
    exclusive.exclusive = True
    with pytest.raises(AmqpError, match="in exclusive use"):
        await answer(world, world.queue.start_consumer(exclusive, lambda: started.append(1)))
    assert started == []
    assert (await counts(world)).consumers == 1


@rule(8, unless=NO_QUEUE | UNSERVED)
@pytest.mark.parametrize("no_ack", [False, True])
async def test_consumers_get_messages_in_order(world: QueueWorld, no_ack: bool) -> None:
    channel, received = Channel(), []
    await consume(world, channel, no_ack=no_ack)
    sent = [b"%d" % number for number in range(50)]
    await put(world, *sent)
    await eventually(world, lambda: received.extend(channel.read()) or len(received) == 50)
    assert received == [(body, False) for body in sent]


@rule(8, unless=NO_QUEUE | UNSERVED)
async def test_a_parked_consumer_gets_nothing_until_it_has_room(world: QueueWorld) -> None:
    channel, received = Channel(), []
    consumer = await consume(world, channel, prefetch=2)
    await put(world, b"a", b"b", b"c", b"d")

    async def receive(count: int) -> list[bytes]:
        await eventually(world, lambda: received.extend(channel.read()) or len(received) >= count)
        for _ in range(10):
            await world.pass_time()
        received.extend(channel.read())
        return [body for body, _ in received]

    assert await receive(2) == [b"a", b"b"]
    assert consumer.unacked == 2
    channel.deliveries.ack(1, False)
    assert await receive(3) == [b"a", b"b", b"c"]


@rule(8, unless=NO_QUEUE | UNSERVED | READ_IN_PLACE)
async def test_a_removed_consumer_gets_nothing_and_keeps_what_it_has(world: QueueWorld) -> None:
    channel, received = Channel(), []
    consumer = await consume(world, channel)
    await put(world, b"a")
    await eventually(world, lambda: received.extend(channel.read()) or len(received) == 1)
    world.queue.remove_consumer(consumer)
    world.queue.pump()
    await put(world, b"b")
    assert await counts(world) == (1, 0)
    assert channel.read() == []
    channel.deliveries.settle_requeued(channel.deliveries.take_all())
    assert (await fetched(world)).message.body == b"a"


DELETED_OTHERWISE = NO_QUEUE | {"stored": "the offline tool removes it from the metadata itself"}


@rule(9, unless=DELETED_OTHERWISE)
async def test_a_queue_is_deleted_on_conditions(world: QueueWorld) -> None:
    channel = Channel()
    consumer = await consume(world, channel, prefetch=1)
    with pytest.raises(SoftError, match="in use"):
        await answer(world, world.queue.delete_if(True, False, world.remove))
    world.queue.remove_consumer(consumer)
    await put(world, b"a", b"b")
    with pytest.raises(SoftError, match="not empty"):
        await answer(world, world.queue.delete_if(True, True, world.remove))
    assert (await counts(world)).ready == 2
    assert await answer(world, world.queue.delete_if(True, False, world.remove)) == 2
    removed = world.master if isinstance(world, Remote) else world.queue
    assert removed.is_deleted


@rule(10, unless=NO_QUEUE | UNSERVED)
async def test_nobody_waits_for_a_queue_that_is_deleted(world: QueueWorld) -> None:
    channel, cancelled, client = Channel(), [], Client()
    consumer = await consume(world, channel, prefetch=1)
    consumer.on_cancelled = cancelled.append
    pending = [n for n in (1, 2, 3) if publish(world, client, n, message(b"m")) == PENDING]
    await eventually(world, lambda: bool(channel.deliveries.unacked))
    world.queue.delete()
    await eventually(world, lambda: len(client.confirms + client.refusals) >= len(pending))
    assert (sorted(client.confirms + client.refusals), client.too_early) == (pending, [])
    assert (cancelled, consumer.is_cancelled) == ([consumer], True)
    channel.deliveries.settle_requeued(channel.deliveries.take_all())
    assert world.queue.publish(message(b"late"), None, 0) == TAKEN
    await world.pass_time()
    assert channel.read()[1:] == []


@rule(10, unless={kind: "see the test before" for kind in KINDS if kind != "stored"})
async def test_a_queue_that_nobody_serves_can_be_deleted(world: QueueWorld) -> None:
    world.queue.apply_settings(QueueSettings(max_length=1))
    assert world.queue.settings.max_length == 1
    world.queue.delete()
    assert world.queue.is_deleted


@rule(
    11,
    unless=NO_QUEUE
    | UNSERVED
    | READ_IN_PLACE
    | {"remote": "its master knows that by the numbers of a link's publishes (`doubtful`)"},
)
@pytest.mark.parametrize("has_rules", [False, True])
async def test_what_may_have_been_delivered_is_marked(world: QueueWorld, has_rules: bool) -> None:
    assert isinstance(world, Classic)
    assert isinstance(world.queue, Queue)
    if has_rules:
        limit(world, QueueSettings(max_length=10))
    client = Client()
    outcome = client.publish(lambda p, n: world.queue.publish_again(message(b"again"), p, n), 1)
    publish(world, client, 2, message(b"new"))
    await eventually(world, lambda: client.confirms == [1, 2])
    assert outcome == PENDING
    found = [await fetched(world) for _ in range(2)]
    assert [(q.message.body, q.redelivered) for q in found] == [(b"again", True), (b"new", False)]


@rule(11, unless={k: "see the test before" for k in KINDS if k not in ("classic", "deduplicating")})
@pytest.mark.parametrize("no_ack", [False, True])
async def test_a_consumer_sees_that_mark_too(world: QueueWorld, no_ack: bool) -> None:
    channel, received = Channel(), []
    await consume(world, channel, no_ack=no_ack)
    world.queue.publish_again(message(b"again"), None, 0)
    world.queue.publish(message(b"new"), None, 0)
    await eventually(world, lambda: received.extend(channel.read()) or len(received) == 2)
    assert received == [(b"again", True), (b"new", False)]


@rule(2, unless={kind: "it keeps messages" for kind in KINDS if kind not in NO_QUEUE})
async def test_an_answer_reaches_the_channel_that_waits_for_it(world: QueueWorld) -> None:
    assert isinstance(world, Replies)
    assert world.queue.publish(world.reply(b"m"), None, 0) == TAKEN
    assert world.channel.read() == [(b"m", False)]
