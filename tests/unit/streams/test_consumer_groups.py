"""Groups of single active consumers: whose turn it is, and when their cursors are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from manual_clock import ManualClock
from topology_samples import table
from warren.model.counters import MessageCounters
from warren.model.fields import EMPTY_TABLE
from warren.queues.boundary import AbstractQueue
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries, TurnClock
from warren.streams.consumer_groups import (
    STORED_EVERY_MS,
    UNSTORED_GROUPS_MAX,
    ConsumerGroups,
    group_of,
)
from warren.wire.codec import OutputBuffer


class Cursors:
    """A metadata store that can be told to refuse."""

    def __init__(self) -> None:
        self.stored: dict[str, int] = {}
        self.is_down = False

    def offset(self, group: str) -> int | None:
        return self.stored.get(group)

    async def store(self, group: str, offset: int) -> bool:
        await asyncio.sleep(0)
        if not self.is_down:
            self.stored[group] = max(offset, self.stored.get(group, 0))
        return not self.is_down


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cursors = Cursors()
        self.positions: dict[Consumer, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.groups = ConsumerGroups(self.clock, self._spawn, self.positions.get)
        self.groups.cursors = self.cursors

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def settle(self) -> None:
        while self._tasks:
            await self._tasks.pop()

    def join(self, name: str = "g") -> Consumer:
        """Enter a group; one that is served begins where its group goes on, or at 0."""
        output = OutputBuffer(1, 1, lambda: None)
        deliveries = Deliveries(1, output, TurnClock(), MessageCounters())
        consumer = Consumer(AbstractQueue(), deliveries, "tag", False, 1)
        consumer.arguments = table({"x-single-active-consumer": True, "x-stream-group": name})
        if self.groups.enter(consumer):
            self.begin(consumer)
        return consumer

    def begin(self, consumer: Consumer) -> None:
        self.positions[consumer] = self.groups.beginning(consumer) or 0
        self.groups.begun(consumer)

    def leave(self, consumer: Consumer) -> Consumer | None:
        following = self.groups.leave(consumer)
        self.positions.pop(consumer, None)
        if following is not None:
            self.begin(following)
        return following


@pytest.fixture
def world() -> World:
    return World()


async def test_consumers_take_turns_in_the_order_in_which_they_came(world: World) -> None:
    first, second, third = (world.join() for _ in range(3))
    assert [*world.positions] == [first]
    assert world.leave(second) is None, "one that waits goes without notice"
    world.positions[first] = 12
    assert world.leave(first) is third
    assert world.positions == {third: 12}
    await world.settle()


async def test_a_position_is_stored_at_once_then_in_intervals_and_at_the_end(
    world: World,
) -> None:
    consumer = world.join()
    await world.settle()
    assert world.cursors.stored == {"g": 0}
    world.positions[consumer] = 7
    world.clock.advance(STORED_EVERY_MS - 1)
    await world.settle()
    assert world.cursors.stored == {"g": 0}
    world.clock.advance(1)
    await world.settle()
    assert world.cursors.stored == {"g": 7}
    world.positions[consumer] = 9
    world.leave(consumer)
    await world.settle()
    assert world.cursors.stored == {"g": 9}


async def test_an_empty_group_goes_on_where_it_left_off_though_nothing_could_be_stored(
    world: World,
) -> None:
    consumer = world.join()
    world.positions[consumer] = 5
    world.cursors.is_down = True
    world.leave(consumer)
    await world.settle()
    assert world.positions[world.join()] == 5
    world.cursors.is_down = False
    world.clock.advance(STORED_EVERY_MS)
    await world.settle()
    assert world.cursors.stored == {"g": 5}


async def test_what_an_operator_sets_counts_once_the_group_is_empty_and_stored(
    world: World,
) -> None:
    consumer = world.join()
    world.positions[consumer] = 5
    world.leave(consumer)
    await world.settle()
    world.cursors.stored["g"] = 2
    assert world.positions[world.join()] == 2
    await world.settle()


async def test_empty_groups_are_not_remembered_without_end(world: World) -> None:
    world.cursors.is_down = True
    for number in range(UNSTORED_GROUPS_MAX + 50):
        world.leave(world.join(f"g{number}"))
        await world.settle()
    assert len(world.groups._groups) <= UNSTORED_GROUPS_MAX + 1


def test_others_belong_to_no_group() -> None:
    assert group_of(EMPTY_TABLE) is None
    assert group_of(table({"x-single-active-consumer": False, "x-stream-group": "g"})) is None
