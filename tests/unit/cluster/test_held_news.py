"""How far the mirrors of a node have come is told to each master's node in one message."""

from __future__ import annotations

import pytest

from warren.cluster.actions import Action, SetTimer, TellNode
from warren.cluster.effects import Effects
from warren.cluster.held_news import UNAWAITED_MS, HeldNews
from warren.cluster.link.control import Held, HeldCopy


class World:
    def __init__(self) -> None:
        self.is_woken = False
        self.effects = Effects(self)
        self.news = HeldNews(self.effects)

    def wake(self) -> None:
        self.is_woken = True

    def end_turn(self) -> list[Action]:
        self.effects.end_turn()
        return self.effects.end()


@pytest.fixture
def world() -> World:
    return World()


def copy(uid: str, number: int) -> HeldCopy:
    return HeldCopy(uid, "b/1/1", 1, number)


def test_a_turn_tells_each_node_once_and_of_each_copy_the_last_number(world: World) -> None:
    world.news.add("a", copy("q1", 1), True)
    world.news.add("a", copy("q2", 5), True)
    world.news.add("c", copy("q3", 7), True)
    world.news.add("a", copy("q1", 2), True)
    assert world.end_turn() == [
        TellNode("a", Held((copy("q1", 2), copy("q2", 5)))),
        TellNode("c", Held((copy("q3", 7),))),
    ]
    assert world.end_turn() == []


def test_what_nobody_waits_for_goes_with_other_news(world: World) -> None:
    world.news.add("a", copy("q1", 1), False)
    assert not only_news(world.end_turn())
    world.news.add("a", copy("q2", 1), True)
    assert only_news(world.end_turn()) == [TellNode("a", Held((copy("q1", 1), copy("q2", 1))))]


def test_what_nobody_waits_for_goes_by_itself_after_a_while(world: World) -> None:
    world.news.add("a", copy("q1", 1), False)
    world.news.add("a", copy("q2", 1), False)
    (timer,) = [action for action in world.end_turn() if isinstance(action, SetTimer)]
    assert timer.delay_ms == UNAWAITED_MS
    world.effects.fire(timer.token)
    assert only_news(world.end_turn()) == [TellNode("a", Held((copy("q1", 1), copy("q2", 1))))]


def only_news(actions: list[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, TellNode)]
