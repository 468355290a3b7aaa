"""The rules of `warren.queues.backing`, by their numbers, for backing queues of every kind.

A rule that does not concern a kind is not tried with it; `unless` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from backing_worlds import (
    KINDS,
    PERSISTENT,
    PRIORITY_MAX,
    TRANSIENT,
    WAIT_S,
    BackingWorld,
    Client,
    Mirrored,
    message,
    until,
    urgent,
)
from warren.queues.boundary import PENDING, REJECTED, TAKEN
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

RULES = range(1, 18)
LARGE = 100_000
"""Some of these are more than one batch of a master's."""

READ_IN_PLACE = "its records are read where they are, by cursors: nothing is fetched or settled"
STREAMS = dict.fromkeys(("stream", "master of a stream"), READ_IN_PLACE)
SAFE_AT_ONCE = dict.fromkeys(
    ("memory", "memory by priority"), "nothing is ever PENDING: rule 6 holds for all messages"
)
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
async def world(kind: str, tmp_path: Path) -> AsyncIterator[BackingWorld]:
    world = KINDS[kind](tmp_path)
    await world.open()
    yield world
    await world.close()


def put(world: BackingWorld, *bodies: bytes) -> None:
    for body in bodies:
        assert world.backing.publish(message(body), 0, None, 0) == TAKEN


def publish(world: BackingWorld, client: Client, sequence: int, sent: Message) -> int:
    def call(publisher: Client, number: int) -> int:
        return world.backing.publish(sent, 0, publisher, number)

    return client.publish(call, sequence)


async def take(world: BackingWorld, ack_required: bool = True) -> QueuedMessage:
    """The head, when it has been read."""
    async with asyncio.timeout(WAIT_S):
        while (queued := world.backing.fetch(ack_required)) is None:
            assert world.backing.length, "there is a head"
            await world.pass_time()
    return queued


async def drained(world: BackingWorld) -> list[bytes]:
    return [(await take(world, False)).message.body for _ in range(world.backing.length)]


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_every_rule_is_tried_and_every_kind_takes_part() -> None:
    assert sorted(tried) == list(RULES)
    assert {kind for kinds in tried.values() for kind in kinds} == set(KINDS)


@rule(1, unless=dict.fromkeys(STREAMS, "its log numbers records, when it writes them"))
async def test_numbers_go_up_and_are_never_given_twice(world: BackingWorld) -> None:
    foretold = []
    for body in bodies(3):
        foretold.append(world.backing.next_sequence_of(message(body)))
        put(world, body)
    given = [(await take(world)).sequence for _ in range(3)]
    assert given == foretold == sorted(set(given))
    put(world, b"purged")
    world.backing.purge()
    late = QueuedMessage(message(b"late"), 0, 0)
    foretold.append(world.backing.next_sequence_of(late.message))
    world.backing.publish_delivered(late, None, 0)
    assert late.sequence == foretold[-1] > given[-1] + 1
    assert world.backing.used_below() > late.sequence


@rule(2, unless=STREAMS)
async def test_messages_leave_in_the_order_they_came_in(world: BackingWorld) -> None:
    put(world, *bodies(100))
    assert await drained(world) == bodies(100)


@rule(
    2,
    unless={
        kind: "it has one level" for kind in KINDS if "priority" not in kind and "ids" not in kind
    },
)
async def test_the_highest_priority_leaves_first(world: BackingWorld) -> None:
    sent = [(priority, b"%d.%d" % (priority, n)) for n in range(3) for priority in (0, 2, 1, 9)]
    for priority, body in sent:
        world.backing.publish(urgent(body, priority), 0, None, 0)
    in_order = sorted(sent, key=lambda each: -min(each[0], PRIORITY_MAX))
    assert await drained(world) == [body for _, body in in_order]


@rule(3, unless=STREAMS)
async def test_what_comes_back_is_where_it_was(world: BackingWorld) -> None:
    put(world, *bodies(6))
    got = [await take(world) for _ in range(5)]
    world.backing.requeue([got[3], got[0]])
    world.backing.requeue([got[2]])
    world.backing.ack([got[1], got[4]])
    put(world, b"6")
    assert await drained(world) == [b"0", b"2", b"3", b"5", b"6"]


@rule(4, unless=dict.fromkeys(STREAMS, "it counts the records of its log that can be read"))
async def test_counts_are_right_after_every_call(world: BackingWorld) -> None:
    backing = world.backing

    def counts() -> tuple[int, int, int]:
        assert backing.figures().ready == backing.length
        assert backing.figures().ready_bytes == backing.ready_bytes
        assert backing.figures().unacked == backing.unacked_count
        return backing.length, backing.ready_bytes, backing.unacked_count

    assert counts() == (0, 0, 0)
    backing.publish_delivered(QueuedMessage(message(b"at once"), 0, 0), None, 0)
    assert counts() == (0, 0, 1)
    put(world, b"a", b"bb", b"ccc")
    assert counts() == (3, 6, 1)
    first, second = await take(world), await take(world)
    assert counts() == (1, 3, 3)
    backing.requeue([first])
    assert counts() == (2, 4, 2)
    backing.ack([second])
    assert counts() == (2, 4, 1)
    await take(world, ack_required=False)
    assert counts() == (1, 3, 1)
    assert backing.purge() == 1
    assert counts() == (0, 0, 1)


@rule(5, unless=STREAMS)
async def test_looking_at_the_head_takes_nothing(world: BackingWorld) -> None:
    backing = world.backing
    assert (backing.head(), backing.peek(), backing.fetch(True)) == (None, None, None)
    put(world, b"first", b"second")
    async with asyncio.timeout(WAIT_S):
        while (head := backing.head()) is None:
            await world.pass_time()
    again = backing.head()
    assert again is not None
    assert (head.sequence, head.message.body) == (again.sequence, b"first")
    assert backing.length == 2
    assert (await take(world)).sequence == head.sequence


@rule(6)
async def test_without_a_publisher_a_message_is_taken(world: BackingWorld) -> None:
    put(world, b"persistent")
    assert world.backing.publish(message(b"transient", TRANSIENT), 0, None, 0) == TAKEN


@rule(6)
async def test_what_need_not_survive_is_taken_and_nothing_more_is_said(world: BackingWorld) -> None:
    client = Client()
    outcome = publish(world, client, 7, message(b"m", TRANSIENT))
    assert outcome == (PENDING if world.is_transient_pending else TAKEN)
    if outcome == PENDING:
        await until(world, lambda: client.confirms == [7])
    else:
        for _ in range(10):
            await world.pass_time()
        assert (client.confirms, client.refusals) == ([], [])


@rule(6, unless=STREAMS)
async def test_a_message_for_a_consumer_is_as_safe_as_one_that_waits(world: BackingWorld) -> None:
    client = Client()
    queued = QueuedMessage(message(b"m"), 0, 0)
    outcome = client.publish(lambda p, n: world.backing.publish_delivered(queued, p, n), 7)
    assert outcome == (PENDING if world.is_pending else TAKEN)
    await until(world, lambda: client.confirms == ([7] if world.is_pending else []))
    assert client.too_early == []


@rule(7, unless=SAFE_AT_ONCE)
@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
async def test_a_pending_message_is_answered_once_and_not_before_it_is_pending(
    world: BackingWorld, properties: PropertyBlock, size: int
) -> None:
    is_pending = world.is_pending if properties is PERSISTENT else world.is_transient_pending
    client, numbers = Client(), list(range(1, 21))
    outcomes = {publish(world, client, n, message(bytes(size), properties)) for n in numbers}
    assert outcomes == {PENDING if is_pending else TAKEN}
    expected = numbers if is_pending else []
    await until(world, lambda: len(client.confirms) >= len(expected))
    for _ in range(10):
        await world.pass_time()
    assert sorted(client.confirms) == expected
    assert (client.refusals, client.too_early) == ([], [])


@rule(8, unless=SAFE_AT_ONCE)
async def test_nothing_is_confirmed_before_the_disk_has_it(world: BackingWorld) -> None:
    """No time has passed, so the disk has nothing."""
    client = Client()
    assert publish(world, client, 1, message(b"m")) == PENDING
    assert client.confirms == []
    await until(world, lambda: client.confirms == [1])


@rule(
    8,
    unless={
        **dict.fromkeys((kind for kind in KINDS if "master" not in kind), "it has no mirrors"),
        "master without mirrors": "it waits for its own disk alone",
        "master of a stream": "tests/unit/replication/test_streams.py holds its mirrors back",
    },
)
async def test_a_master_confirms_nothing_that_a_mirror_in_sync_does_not_have(
    world: BackingWorld,
) -> None:
    assert isinstance(world, Mirrored)
    client = Client()
    publish(world, client, 1, message(b"m"))
    publish(world, client, 2, message(b"m", TRANSIENT))
    world.backing.ack([await take(world), await take(world)])
    world.world.end_turn()
    world.world.here.sync()
    assert client.confirms == []
    await until(world, lambda: client.confirms == [1, 2])


@rule(8, unless=SAFE_AT_ONCE | STREAMS)
@pytest.mark.parametrize("ack_required", [True, False])
async def test_what_nobody_needs_any_more_is_confirmed(
    world: BackingWorld, ack_required: bool
) -> None:
    client = Client()
    for number in (1, 2, 3):
        assert publish(world, client, number, message(b"m")) == PENDING
    for _ in range(3):
        queued = await take(world, ack_required)
        if ack_required:
            world.backing.ack([queued])
    await until(world, lambda: len(client.confirms) >= 3)
    assert (sorted(client.confirms), client.refusals) == ([1, 2, 3], [])


@rule(8, unless=SAFE_AT_ONCE | dict.fromkeys(STREAMS, "a stream cannot be purged"))
async def test_what_is_purged_is_confirmed(world: BackingWorld) -> None:
    client = Client()
    for number in (1, 2, 3):
        assert publish(world, client, number, message(b"m")) == PENDING
    assert world.backing.purge() == 3
    await until(world, lambda: len(client.confirms) >= 3)
    assert (sorted(client.confirms), client.refusals) == ([1, 2, 3], [])


@rule(
    9,
    unless=dict.fromkeys(SAFE_AT_ONCE, "it has no disk")
    | dict.fromkeys(STREAMS, "it drops what is refused: the next rule is for streams"),
)
async def test_what_the_disk_refuses_is_rejected_once_and_stays(world: BackingWorld) -> None:
    client = Client()
    world.fill_disk()
    for number in (1, 2):
        assert publish(world, client, number, message(bytes(5_000))) == PENDING
    await until(world, lambda: len(client.refusals) == 2)
    assert world.backing.length == 2
    world.empty_disk()
    assert publish(world, client, 3, message(b"late")) == PENDING
    await until(world, lambda: client.confirms == [3])
    assert (client.refusals, client.too_early) == ([1, 2], [])


@rule(9, unless=dict.fromkeys(set(KINDS) - set(STREAMS), "a classic queue takes it all the same"))
async def test_a_stream_whose_disk_is_full_takes_nothing(world: BackingWorld) -> None:
    """What mirrors have waits until there is room; all else is refused."""
    client, pending = Client(), []

    def try_another() -> int:
        outcome = publish(world, client, len(pending) + 1, message(bytes(500)))
        pending.extend([len(pending) + 1] if outcome == PENDING else [])
        return outcome

    world.fill_disk()
    await until(world, lambda: try_another() == REJECTED)
    world.empty_disk()
    await until(world, lambda: try_another() == PENDING)
    await until(world, lambda: pending[-1] in client.confirms)
    assert sorted(client.confirms + client.refusals) == pending
    assert world.backing.length == len(client.confirms)
    assert client.too_early == []


@rule(10, unless=SAFE_AT_ONCE)
async def test_messages_become_safe_in_the_order_they_came(world: BackingWorld) -> None:
    client = Client()
    for number in range(1, 51):
        publish(world, client, number, message(bytes(number * 200)))
        if number % 10 == 0:
            await world.pass_time()
    await until(world, lambda: len(client.confirms) == 50)
    assert client.confirms == list(range(1, 51))


@rule(11, unless=dict.fromkeys(STREAMS, "a stream cannot be purged"))
async def test_a_purge_leaves_what_clients_have(world: BackingWorld) -> None:
    put(world, *bodies(5))
    got = [await take(world) for _ in range(3)]
    assert world.backing.purge() == 2
    assert (world.backing.length, world.backing.unacked_count) == (0, 3)
    world.backing.ack([got[1]])
    world.backing.requeue([got[2], got[0]])
    put(world, b"5")
    assert world.backing.purge() == 3
    put(world, b"6")
    assert await drained(world) == [b"6"]


@rule(11, unless=dict.fromkeys(STREAMS, "a stream cannot be purged"))
async def test_what_a_client_had_at_a_purge_comes_back_to_its_place(world: BackingWorld) -> None:
    put(world, *bodies(5))
    got = [await take(world) for _ in range(3)]
    world.backing.purge()
    put(world, b"5")
    world.backing.requeue([got[2], got[0]])
    assert await drained(world) == [b"0", b"2", b"5"]


@rule(12)
async def test_nobody_waits_for_a_queue_that_is_deleted(world: BackingWorld) -> None:
    client, pending = Client(), 0
    for number in (1, 2, 3):
        pending += publish(world, client, number, message(b"m")) == PENDING
    world.backing.delete()
    await until(world, lambda: len(client.confirms) + len(client.refusals) >= pending)
    assert client.confirms == [1, 2, 3][:pending]
    assert (world.backing.length, world.backing.ready_bytes) == (0, 0)


@rule(13, unless=STREAMS)
async def test_acknowledgements_come_in_any_order(world: BackingWorld) -> None:
    put(world, *bodies(7))
    got = [await take(world) for _ in range(6)]
    for run in ([got[3]], [got[0], got[4]], [got[2], got[1]]):
        world.backing.ack(run)
    assert (world.backing.length, world.backing.unacked_count) == (1, 1)
    world.backing.requeue([got[5]])
    assert await drained(world) == [b"5", b"6"]


@rule(14)
async def test_looking_changes_nothing(world: BackingWorld) -> None:
    client, backing = Client(), world.backing
    for number in range(1, 11):
        publish(world, client, number, message(b"%d" % number))
    pending = 10 if world.is_pending else 0
    await until(world, lambda: len(client.confirms) == pending and backing.length == 10)
    before = backing.figures()
    shown = await backing.browse(2, 3, 1 << 20)
    assert [queued.message.body for queued in shown] == [b"3", b"4", b"5"]
    assert await backing.browse(10, 5, 1 << 20) == []
    backing.peek()
    backing.status(0)
    assert backing.figures() == before


@rule(15, unless=dict.fromkeys(STREAMS, "its records are on disk, whatever the mode"))
async def test_being_lazy_or_not_changes_neither_order_nor_counts(world: BackingWorld) -> None:
    backing = world.backing
    for lazy, first in ((True, 0), (False, 20), (True, 40)):
        backing.set_lazy(lazy)
        put(world, *bodies(20, first))
        for _ in range(5):
            await world.pass_time()
        assert (backing.length, backing.ready_bytes) == (
            first + 20,
            sum(map(len, bodies(first + 20))),
        )
    assert await drained(world) == bodies(60)


@rule(16, unless=STREAMS)
async def test_the_newest_message_can_be_marked_as_redelivered(world: BackingWorld) -> None:
    before, again, after = message(b"before"), message(b"again"), message(b"after")
    world.backing.publish(before, 0, None, 0)
    world.backing.publish(again, 0, None, 0)
    world.backing.mark_redelivered(again)
    world.backing.publish(after, 0, None, 0)
    got = {queued.message.body: queued.redelivered for queued in [await take(world) for _ in "123"]}
    assert got[b"again"] is True
    assert got[b"after"] is False


@rule(17, unless=STREAMS)
async def test_what_clients_have_may_lose_its_body_and_has_it_when_it_comes_back(
    world: BackingWorld,
) -> None:
    backing = world.backing
    sent = [message(b"%d" % number * LARGE, PERSISTENT) for number in range(1, 5)]
    for each in sent:
        backing.publish(each, 0, None, 0)
    got = [await take(world) for _ in sent]
    for _ in range(5):
        await world.pass_time()
        backing.drop_unacked(got)
    assert (backing.length, backing.unacked_count) == (0, 4)
    loaded: list[QueuedMessage] = []
    backing.load_unacked(got[:1], loaded.extend)
    await until(world, lambda: len(loaded) == 1)
    assert loaded[0].message.body == sent[0].body
    backing.ack(got[:2])
    backing.requeue(got[2:])
    assert (backing.length, backing.ready_bytes) == (2, 2 * LARGE)
    assert await drained(world) == [each.body for each in sent[2:]]
