"""Relocations: a master that `rebalance` moves, until it has moved or the time is up."""

from __future__ import annotations

from machine_world import NAME, group_change, group_on, session_change, view_of
from warren.cluster.actions import Action, SetTimer
from warren.cluster.effects import Effects
from warren.cluster.relocations import RELOCATION_MS_MAX, Relocations
from warren.model.records import QueueName


class World:
    """`a` leads a queue; `b` is to lead it instead."""

    def __init__(self) -> None:
        self.view = view_of("bc")
        self.view.apply([group_change(group_on("abc"), 1)])
        self.effects = Effects(self)
        self.planned: list[tuple[QueueName, str]] = []
        self.relocations = Relocations(self.view, self.effects, self._replan)

    def _replan(self, name: QueueName) -> None:
        self.planned.append((name, self.relocations.destination_of(name)))

    def wake(self) -> None: ...

    def begin(self, node: str) -> SetTimer:
        self.relocations.begin(NAME, node)
        timers = [action for action in self.actions() if isinstance(action, SetTimer)]
        return timers[0]

    def actions(self) -> list[Action]:
        self.effects.begin()
        return self.effects.end()


def test_a_relocation_has_copies_planned_with_its_destination() -> None:
    world = World()
    assert world.relocations.destination_of(NAME) == ""
    assert world.begin("b").delay_ms == RELOCATION_MS_MAX
    assert world.planned == [(NAME, "b")]


def test_a_relocation_that_does_not_succeed_in_time_is_forgotten() -> None:
    world = World()
    timer = world.begin("b")
    world.effects.fire(timer.token)
    assert world.planned == [(NAME, "b"), (NAME, "")]


def test_a_later_relocation_replaces_the_first_and_has_its_full_time() -> None:
    world = World()
    first = world.begin("b")
    world.begin("c")
    world.effects.fire(first.token)
    assert world.relocations.destination_of(NAME) == "c"


def test_a_relocation_is_over_when_the_master_has_moved() -> None:
    """The new master may be moved back: that is another wish."""
    world = World()
    world.begin("b")
    world.view.apply([group_change(group_on("bac"), 2)])
    assert world.relocations.destination_of(NAME) == ""
    world.view.apply([group_change(group_on("abc"), 3)])
    assert world.relocations.destination_of(NAME) == ""


def test_a_relocation_is_over_when_its_destination_or_the_group_is_gone() -> None:
    world = World()
    world.begin("b")
    world.view.apply([session_change("b", "")])
    assert world.relocations.destination_of(NAME) == ""
    world.begin("c")
    world.view.apply([group_change(None, 2)])
    assert world.relocations.destination_of(NAME) == ""
