"""Who is behind, and because of what, when the loop is busy."""

from __future__ import annotations

from typing import cast

import pytest

from warren.flow.credit import Credit
from warren.flow.states import Stage
from warren.server.connection import AmqpConnection
from warren.server.telemetry.busyness import Busyness
from warren.server.telemetry.loop_load import (
    BACKLOGS_PER_LOOK_MAX,
    ROUTED_MIN,
    LoopLoad,
    Work,
    stage_of,
    waits_for,
)

NOTHING = Work(0, 0, Stage.CHANNEL)


@pytest.mark.parametrize(
    ("work", "stage"),
    [
        (Work(ROUTED_MIN, 0, Stage.CHANNEL), Stage.CHANNEL),
        (Work(ROUTED_MIN - 1, 0, Stage.CHANNEL), None),
        (Work(10_000, 4_999, Stage.CHANNEL), Stage.CHANNEL),
        (Work(10_000, 5_000, Stage.CHANNEL), Stage.QUEUE),
        (Work(10_000, 0, Stage.QUEUE), Stage.QUEUE),
        (Work(10_000, 10_000, Stage.STORE), Stage.STORE),
        (Work(5, 0, Stage.STORE), Stage.STORE),
        (Work(0, 0, Stage.CHANNEL), None),
    ],
)
def test_the_work_of_a_second_says_whose_it_is(work: Work, stage: Stage | None) -> None:
    assert stage_of(NOTHING, work) is stage


def test_the_last_stage_counts_that_much_waits_for() -> None:
    journal, store = Credit(800, Stage.QUEUE), Credit(800, Stage.STORE)
    assert waits_for((journal, store)) is Stage.CHANNEL
    journal.charge(100)
    assert waits_for((journal, store)) is Stage.QUEUE
    store.charge(99)
    assert waits_for((journal, store)) is Stage.QUEUE
    store.charge(1)
    assert waits_for((journal, store)) is Stage.STORE


class Looked:
    """Stands for a connection: notes when it is looked at."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []

    def look_at_backlog(self, stage: Stage, now_ms: int) -> None:
        self.stages.append(stage)


class World:
    def __init__(self, connections: int) -> None:
        self.awake_ns = self.now_ns = self.published = 0
        self.waits_for = Stage.CHANNEL
        self.marked = 0
        self.connections = [Looked() for _ in range(connections)]
        busyness = Busyness(lambda: self.awake_ns, lambda: self.now_ns, looks=4)
        self.load = LoopLoad(
            lambda: cast("list[AmqpConnection]", self.connections),
            lambda: Work(self.published, 0, self.waits_for),
            self._mark,
            busyness,
        )

    def _mark(self, now_ms: int) -> None:
        self.marked += 1

    def pass_time(self, awake: float) -> None:
        self.now_ns += 250_000_000
        self.awake_ns += int(awake * 250_000_000)
        self.published += ROUTED_MIN
        self.load.look(self.now_ns // 1_000_000)


def test_c130_a_busy_loop_is_noticed_within_two_seconds_and_a_moment_is_not() -> None:
    world = World(1)
    (connection,) = world.connections
    for _ in range(4):
        world.pass_time(awake=0.1)
    world.pass_time(awake=1.0)
    assert connection.stages == []
    looks = 1
    while not connection.stages:
        world.pass_time(awake=1.0)
        looks += 1
    assert looks * 250 < 2_000
    assert connection.stages == [Stage.CHANNEL]
    for _ in range(4):
        world.pass_time(awake=0.1)
    before = len(connection.stages)
    world.pass_time(awake=0.1)
    assert len(connection.stages) == before


def test_queues_with_bodies_under_way_are_marked_if_the_store_is_behind() -> None:
    world = World(1)
    world.waits_for = Stage.STORE
    for _ in range(3):
        world.pass_time(awake=1.0)
    assert world.marked == 2
    assert set(world.connections[0].stages) == {Stage.STORE}


def test_of_many_connections_some_are_looked_at_in_turn() -> None:
    world = World(BACKLOGS_PER_LOOK_MAX + 10)
    world.pass_time(awake=1.0)
    for _ in range(2):
        world.pass_time(awake=1.0)
    assert {len(connection.stages) for connection in world.connections} == {1}
