"""When what masters tell their mirrors goes out: at once, with others, or with messages."""

from __future__ import annotations

from typing import Any

import pytest

from warren.cluster.actions import SetTimer
from warren.cluster.effects import Effects
from warren.cluster.gathering import (
    ALONE_MAX,
    CROWDED_MS,
    FEW_QUEUES,
    FLUSHED_PER_TURN_MAX,
    LATELY_MS,
    LATER_MS,
    MANY_QUEUES,
    SOON_MS,
    Gathering,
)
from warren.replication.classic.outbox import LATER, NOW, SOON


class Outbox:
    message_count = 0


class UnderWay:
    is_clear = True


class Master:
    is_deposed = False

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.under_way = UnderWay()


class Replica:
    """The part of a replica that is flushed."""

    def __init__(self, world: World, name: str) -> None:
        self.master = Master()
        self._world = world
        self._name = name

    def flush(self) -> None:
        if self._name == "broken":
            raise RuntimeError(self._name)
        self._world.flushed.append(self._name)
        self.master.outbox.message_count = 0


class World:
    def __init__(self) -> None:
        self.time_ms = 1_000
        self.flushed: list[str] = []
        self.effects = Effects(self)
        self._timers: list[tuple[int, int]] = []
        self.gathering = Gathering(self.effects, lambda: self.time_ms)

    def wake(self) -> None:
        """The test ends the turns."""

    def replica(self, name: str) -> Any:
        return Replica(self, name)

    def publish(self, replica: Any, urgency: int = SOON) -> None:
        replica.master.outbox.message_count += 1
        self.gathering.flush_due(replica, urgency)
        self.end_turn()

    def crowd(self, count: int = FEW_QUEUES + 1) -> None:
        """Let so many queues have messages, and their time pass."""
        for number in range(count):
            self.gathering.flush_due(self.replica(f"crowd {number}"), NOW)
        self.end_turn()
        self.gathering.flush_due(self.replica("the last"), NOW)
        self.end_turn()
        self.time_ms += CROWDED_MS
        self.flushed.clear()

    def end_turn(self) -> None:
        self.effects.end_turn()
        actions = self.effects.end()
        timers = [action for action in actions if isinstance(action, SetTimer)]
        self._timers += [(self.time_ms + timer.delay_ms, timer.token) for timer in timers]

    def advance(self, by_ms: int) -> list[str]:
        """Return what was flushed meanwhile."""
        self.flushed.clear()
        ends_ms = self.time_ms + by_ms
        while self._timers and min(self._timers)[0] <= ends_ms:
            self._timers.sort()
            self.time_ms, token = self._timers.pop(0)
            self.effects.fire(token)
            self.end_turn()
        self.time_ms = ends_ms
        return self.flushed


@pytest.fixture
def world() -> World:
    return World()


def test_a_lone_message_goes_when_its_turn_ends(world: World) -> None:
    world.publish(world.replica("a"))
    assert world.flushed == ["a"]


def test_messages_wait_for_those_of_other_queues_while_a_batch_is_under_way(world: World) -> None:
    a, b, c = (world.replica(name) for name in "abc")
    a.master.under_way.is_clear = False
    world.publish(a)
    world.publish(b)
    world.publish(c)
    assert world.flushed == ["a"]
    assert world.advance(SOON_MS) == ["b", "c"]


def test_what_waited_goes_as_soon_as_mirrors_hold_the_batch_before(world: World) -> None:
    a, b = (world.replica(name) for name in "ab")
    a.master.under_way.is_clear = False
    world.publish(a)
    world.time_ms += SOON_MS
    world.publish(b)
    assert world.flushed == ["a"]
    world.gathering.held()
    world.end_turn()
    assert world.flushed == ["a"], "it is not held yet"
    a.master.under_way.is_clear = True
    world.gathering.held()
    world.end_turn()
    assert world.flushed == ["a", "b"]


def test_a_batch_of_a_master_that_leads_no_more_holds_up_nobody(world: World) -> None:
    a, b = (world.replica(name) for name in "ab")
    a.master.under_way.is_clear = False
    world.publish(a)
    a.master.is_deposed = True
    world.time_ms += SOON_MS
    world.publish(b)
    assert world.flushed == ["a", "b"]


def test_many_messages_of_a_queue_do_not_wait(world: World) -> None:
    a, b = (world.replica(name) for name in "ab")
    a.master.under_way.is_clear = False
    world.publish(a)
    world.publish(b, NOW)
    assert world.flushed == ["a", "b"]


def test_messages_of_a_few_queues_wait_only_for_a_batch_that_is_under_way(world: World) -> None:
    replicas = [world.replica(str(number)) for number in range(FEW_QUEUES)]
    for replica in 3 * replicas:
        world.publish(replica)
    assert len(world.flushed) == 3 * FEW_QUEUES


def test_messages_of_many_queues_wait_for_each_other(world: World) -> None:
    a, b = (world.replica(name) for name in "ab")
    world.crowd()
    world.publish(a)
    world.publish(b)
    assert world.flushed == ["a"]
    assert world.advance(SOON_MS) == ["b"]


def test_messages_of_very_many_queues_wait_longer(world: World) -> None:
    a, b = (world.replica(name) for name in "ab")
    world.crowd(MANY_QUEUES + 1)
    world.publish(a)
    world.publish(b)
    assert world.advance(CROWDED_MS - 1) == []
    assert world.advance(1) == ["b"]


def test_who_is_left_of_a_crowd_does_not_wait_any_more(world: World) -> None:
    a = world.replica("a")
    world.crowd()
    for _ in range(2):
        world.time_ms += LATELY_MS
        world.publish(a)
    world.flushed.clear()
    world.publish(a)
    assert world.flushed == ["a"]


def test_a_publisher_that_waits_for_each_confirm_waits_once_and_then_no_more(world: World) -> None:
    a = world.replica("a")
    world.crowd()
    world.publish(a)
    world.publish(a)
    assert world.flushed == ["a"], "others may come"
    assert world.advance(SOON_MS) == ["a"], "nobody came"
    for number in range(ALONE_MAX - 1):
        world.publish(a)
        assert len(world.flushed) == number + 2
    world.publish(a)
    assert len(world.flushed) == ALONE_MAX, "from time to time it is tried again"


def test_removals_wait_for_messages_of_their_queue_but_not_for_ever(world: World) -> None:
    a, b = (world.replica(name) for name in "ab")
    world.gathering.flush_due(a, LATER)
    world.gathering.flush_due(b, LATER)
    world.end_turn()
    assert world.advance(LATER_MS) == []
    world.publish(b)
    assert world.flushed == ["b"]
    assert world.advance(LATER_MS) == ["a"]
    assert world.advance(10 * LATER_MS) == []


def test_very_many_queues_are_flushed_in_several_turns(world: World) -> None:
    for number in range(2 * FLUSHED_PER_TURN_MAX + 1):
        world.gathering.flush_due(world.replica(str(number)), NOW)
    counts = []
    for _ in range(4):
        world.flushed.clear()
        world.end_turn()
        counts.append(len(world.flushed))
    assert counts == [FLUSHED_PER_TURN_MAX, FLUSHED_PER_TURN_MAX, 1, 0]


def test_a_queue_that_cannot_be_flushed_does_not_keep_others_waiting(world: World) -> None:
    for name in ("a", "broken", "b"):
        world.gathering.flush_due(world.replica(name), NOW)
    with pytest.raises(RuntimeError):
        world.end_turn()
    assert world.flushed == ["a"]
    world.end_turn()
    assert world.flushed == ["a", "b"]


def test_masters_that_lead_no_more_are_not_kept(world: World) -> None:
    replicas = [world.replica(str(number)) for number in range(50)]
    for replica in replicas:
        replica.master.under_way.is_clear = False
        world.publish(replica, NOW)
    for replica in replicas[1:]:
        replica.master.is_deposed = True
    for _ in range(2):
        world.advance(SOON_MS)
        world.time_ms += SOON_MS
        world.publish(world.replica("other"))
    assert list(world.gathering._busy) == [replicas[0].master]
