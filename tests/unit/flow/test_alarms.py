from __future__ import annotations

from manual_clock import ManualClock
from warren.flow.alarms import Alarm, AlarmBoard, AlarmChange, Resource, blocked_reason

MEMORY, DISK = Resource.MEMORY, Resource.DISK


def test_an_alarm_says_whose_it_is_and_since_when() -> None:
    clock = ManualClock()
    board = AlarmBoard(clock)
    board.set("a", MEMORY)
    began = clock.wall_seconds()
    clock.advance(60_000)
    board.set("a", MEMORY)
    board.set("b", DISK)
    assert board.alarms == [Alarm("a", MEMORY, began), Alarm("b", DISK, began + 60)]
    assert board.is_set("b", DISK)
    assert not board.is_set("b", MEMORY)


def test_a_resource_is_free_when_the_last_node_has_enough_of_it() -> None:
    board = AlarmBoard(ManualClock())
    board.set("a", MEMORY)
    board.set("b", MEMORY)
    board.clear("a", MEMORY)
    assert board.resources == {MEMORY}
    board.clear("b", MEMORY)
    assert board.resources == frozenset()


def test_a_node_that_is_gone_is_short_of_nothing() -> None:
    board = AlarmBoard(ManualClock())
    board.set("a", MEMORY)
    board.set("a", DISK)
    board.set("b", DISK)
    board.forget_node("a")
    assert [(alarm.node, alarm.resource) for alarm in board.alarms] == [("b", DISK)]


def test_listeners_hear_of_changes_only_and_see_the_new_state() -> None:
    board = AlarmBoard(ManualClock())
    heard: list[tuple[AlarmChange, frozenset[Resource]]] = []
    board.listeners.append(lambda change: heard.append((change, board.resources)))
    for node in ("a", "a", "b"):
        board.set(node, DISK)
    for node in ("a", "a", "b"):
        board.clear(node, DISK)
    seen = [(c.alarm.node, c.is_set, c.is_last, set(resources)) for c, resources in heard]
    assert seen == [
        ("a", True, False, {DISK}),
        ("b", True, False, {DISK}),
        ("a", False, False, {DISK}),
        ("b", False, True, set()),
    ]


def test_the_reason_names_all_that_is_short() -> None:
    assert blocked_reason([MEMORY]) == "low on memory"
    assert blocked_reason([DISK]) == "low on disk"
    assert blocked_reason([MEMORY, DISK]) == "low on disk & memory"
