"""The shell around a cluster's machine: it tells events in order and carries out every action."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from machine_world import NAME, group_on, session_of
from shell_world import ShellWorld
from warren.cluster.actions import (
    Action,
    Commit,
    Left,
    OwnSessionLost,
    PrepareCopy,
    PublishState,
    RemoveQueues,
    RenewQueue,
    RevokeSession,
    SendFrame,
    SetTimer,
    TellNode,
)
from warren.cluster.events import (
    CommitAnswered,
    CopyPrepared,
    DrainWanted,
    Event,
    LinkDown,
    MemoryRecovered,
    QueueRenewed,
    TimerFired,
)
from warren.cluster.link.control import BecomeMirror
from warren.flow.alarms import Resource
from warren.metadata.keys import node_key
from warren.metadata.store import Check, Delete, MetadataUnavailable, Put
from warren.model.fields import Field, Table
from warren.replication.group_record import SessionGone

PRIORITIES = Table([("x-max-priority", Field("I", 3))])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ShellWorld]:
    async with ShellWorld(tmp_path) as world:
        yield world


def listened(world: ShellWorld) -> list[Event]:
    """Return a list that grows by each event the machine is told from now on."""
    events: list[Event] = []
    handle = world.shell.node.handle

    def listening(event: Event) -> list[Action]:
        events.append(event)
        return handle(event)

    world.shell.node.handle = listening  # type: ignore[method-assign]
    return events


async def performed(world: ShellWorld, action: Action) -> None:
    work = world.perform(action)
    if work is not None:
        await work


async def test_every_action_has_a_performer(world: ShellWorld) -> None:
    assert set(world.shell._performers) == set(get_args(Action))


async def test_an_event_that_an_action_brings_about_is_the_next_one(world: ShellWorld) -> None:
    """Not one inside another: the machine asserts that."""
    events = listened(world)
    world.shell._performers[PublishState] = lambda _: world.shell.tell(LinkDown("nobody"))
    world.shell.node._handlers[MemoryRecovered] = lambda _: [
        world.shell.node._effects.add(action) for action in (PublishState(), OwnSessionLost())
    ]
    world.shell.tell(MemoryRecovered())
    assert events == [MemoryRecovered(), LinkDown("nobody")]
    assert world.events == ["own session lost"]


async def test_the_topology_is_applied_before_the_machine_hears_of_a_change(
    world: ShellWorld,
) -> None:
    """The machine finds the queue in the topology, and begins its group at once."""
    await world.mirror_all()
    await world.declare()
    assert "decides" in [entry.what for entry in world.shell.node.stories.of(NAME)]


async def test_a_commit_is_stored_and_answered(world: ShellWorld) -> None:
    events = listened(world)
    await performed(world, Commit(7, (Check("lock/x", 0),), (Put("lock/x", b"1"),)))
    assert CommitAnswered(7, True) in events
    await performed(world, Commit(8, (Check("lock/x", 0),), (Delete("lock/x"),)))
    assert CommitAnswered(8, False) in events


@pytest.mark.parametrize(("life", "is_stored"), [("1", False), ("2", True), ("", True)])
async def test_a_commit_that_needs_a_session_to_be_gone_is_refused_while_it_is_there(
    world: ShellWorld, life: str, is_stored: bool
) -> None:
    """The store compares, so a node that is back in time is never declared dead."""
    if life:
        await world.put_session("b", life)
    events = listened(world)
    await performed(world, Commit(7, (), (Put("lock/x", b"1"),), (SessionGone("b", "1"),)))
    assert CommitAnswered(7, is_stored) in events


async def test_a_store_that_cannot_be_reached_refuses(
    world: ShellWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> int:
        raise MetadataUnavailable("no etcd")

    monkeypatch.setattr(world.store, "commit", unavailable)
    events = listened(world)
    await performed(world, Commit(7, (), (Put("lock/x", b"1"),)))
    assert events == [CommitAnswered(7, False)]


async def test_the_session_of_a_process_that_is_gone_is_revoked_by_its_lease(
    world: ShellWorld,
) -> None:
    await performed(world, RevokeSession(session_of("b")))
    assert [lease.id for lease in world.store.revoked] == [session_of("b").lease]


@pytest.mark.parametrize("delay_ms", [0, 5])
async def test_a_timer_tells_its_event_when_the_time_is_up(
    world: ShellWorld, delay_ms: int
) -> None:
    events = listened(world)
    world.perform(SetTimer(99, delay_ms))
    assert events == []
    await world.until(lambda: TimerFired(99) in events)


async def test_frames_and_news_go_over_links_and_are_dropped_without_one(
    world: ShellWorld,
) -> None:
    actions = [SendFrame("b", [b"fra", b"me"]), TellNode("b", BecomeMirror("/", "q", "uid"))]
    for action in actions:
        world.perform(action)
    asker = await world.add_node("b")
    sent: list[object] = []
    asker.mirror_frames = sent.append  # type: ignore[method-assign]
    asker.tell = sent.append  # type: ignore[method-assign]
    for action in actions:
        world.perform(action)
    assert sent == [b"frame", BecomeMirror("/", "q", "uid")]


async def test_a_copy_is_prepared_when_the_disk_has_done_what_it_was_told(
    world: ShellWorld,
) -> None:
    events = listened(world)
    await performed(world, PrepareCopy(NAME, "uid"))
    await performed(world, PrepareCopy(("deleted", "q"), "uid"))
    assert events == [CopyPrepared(NAME, "uid"), CopyPrepared(("deleted", "q"), "uid")]


async def test_a_queue_that_is_gone_is_not_renewed(world: ShellWorld) -> None:
    events = listened(world)
    await performed(world, RenewQueue(NAME))
    await performed(world, RenewQueue(("deleted", "q")))
    assert events == [QueueRenewed(NAME, False), QueueRenewed(("deleted", "q"), False)]


async def test_a_transient_queue_is_renewed_and_then_mirrored(world: ShellWorld) -> None:
    events = listened(world)
    await world.lead(durable=False)
    assert QueueRenewed(NAME, True) in events


async def test_lost_transient_queues_are_deleted(world: ShellWorld) -> None:
    await world.mirror_all()
    await world.add_node("b")
    await world.declare("b", durable=False)
    await world.put_group(group_on("b"))
    await world.end_session("b")
    await world.until(lambda: "q" not in world.vhost.queues)
    await performed(world, RemoveQueues(frozenset({NAME})))


async def test_whoever_leaves_waits_until_the_machine_says_so(world: ShellWorld) -> None:
    await asyncio.wait_for(world.shell.leave(DrainWanted(True), 60.0), 60)
    assert "a" in world.shell.view.drained
    world.shell.tell(DrainWanted(False))
    assert "a" not in world.shell.view.drained


async def test_nobody_waits_for_ever_to_leave(world: ShellWorld) -> None:
    world.shell._performers[Left] = lambda _: None
    await world.shell.leave(DrainWanted(True), 0.01)
    assert not world.shell._left[0].done() or world.shell._left[0].cancelled()
    world.shell._have_left()
    assert world.shell._left == []


async def test_a_condition_on_the_view_is_waited_for(world: ShellWorld) -> None:
    view = world.shell.view
    assert not await world.shell.until(lambda: "b" in view.sessions, 0.01)
    waiting = asyncio.ensure_future(world.shell.until(lambda: "b" in view.sessions, 60.0))
    await asyncio.sleep(0)
    await world.put_session("b")
    assert await waiting


async def test_the_end_of_the_memory_alarm_lets_synchronisations_go_on(world: ShellWorld) -> None:
    events, board = listened(world), world.context.brake.board
    board.set("a", Resource.MEMORY, 1)
    assert world.shell.is_memory_short
    board.clear("a", Resource.MEMORY)
    assert events == [MemoryRecovered()]
    board.set("a", Resource.DISK, 1)
    board.clear("a", Resource.DISK)
    assert events == [MemoryRecovered()]


async def test_the_next_number_of_a_queue_is_the_highest_of_its_levels(world: ShellWorld) -> None:
    await world.declare("b")
    assert world.shell.next_sequence(NAME) == 0
    await world.store.transact([], [Delete(node_key("nobody"))])
    await world.declare(arguments=PRIORITIES)
    assert world.shell.next_sequence(NAME) == 0


async def test_a_disk_that_has_refused_nothing_is_not_doubtful(
    world: ShellWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not world.shell.is_disk_doubtful("/")
    monkeypatch.setattr(type(world.factory.storages["/"].index), "is_doubtful", True)
    assert world.shell.is_disk_doubtful("/")


async def test_lost_sessions_and_states_go_to_whoever_keeps_the_session(
    world: ShellWorld,
) -> None:
    world.perform(PublishState())
    await world.end_session("a")
    assert world.events == ["state published", "own session lost"]
