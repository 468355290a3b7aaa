"""Effects: actions that gather, timers and commits that are answered by events."""

from __future__ import annotations

import pytest

from warren.cluster.actions import Action, Commit, Left, PublishState, SendFrame, SetTimer
from warren.cluster.effects import TOGETHER_BYTES_MAX, Effects


class Loop:
    def __init__(self) -> None:
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def effects(loop: Loop) -> Effects:
    return Effects(loop)


def handled(effects: Effects) -> list[Action]:
    effects.begin()
    return effects.end()


def test_actions_come_in_the_order_in_which_they_were_asked_for(effects: Effects) -> None:
    effects.begin()
    effects.add(Left())
    effects.add(PublishState())
    assert effects.end() == [Left(), PublishState()]
    assert handled(effects) == []


def test_what_is_asked_for_between_events_wakes_the_machine_once(
    loop: Loop, effects: Effects
) -> None:
    """A disk that has synced, or a publisher, is no event: many of them make one turn."""
    effects.add(Left())
    effects.add(PublishState())
    assert loop.wakes == 1
    effects.begin()
    effects.end_turn()
    assert effects.end() == [Left(), PublishState()]
    effects.add(Left())
    assert loop.wakes == 2


def test_an_event_that_asks_for_actions_wakes_nobody(loop: Loop, effects: Effects) -> None:
    effects.begin()
    effects.add(Left())
    effects.end()
    assert loop.wakes == 0


def test_what_is_due_at_the_end_of_a_turn_is_done_once(loop: Loop, effects: Effects) -> None:
    done: list[int] = []
    effects.at_end_of_turn(lambda: done.append(1))
    effects.at_end_of_turn(lambda: done.append(2))
    assert (loop.wakes, done) == (1, [])
    effects.end_turn()
    effects.end_turn()
    assert done == [1, 2]


def test_what_comes_due_while_a_turn_ends_is_for_the_next_one(loop: Loop, effects: Effects) -> None:
    done: list[int] = []
    effects.at_end_of_turn(lambda: effects.at_end_of_turn(lambda: done.append(1)))
    effects.end_turn()
    assert (loop.wakes, done) == (2, [])
    effects.end_turn()
    assert done == [1]


def test_a_timer_fires_once_and_not_if_it_was_cancelled(effects: Effects) -> None:
    """Its event comes all the same."""
    done: list[str] = []
    first = effects.call_later(5, lambda: done.append("first"))
    second = effects.call_later(7, lambda: done.append("second"))
    assert handled(effects) == [SetTimer(first, 5), SetTimer(second, 7)]
    effects.cancel(second)
    for token in (first, first, second, 999):
        effects.fire(token)
    assert done == ["first"]


def test_a_commit_is_answered_once(effects: Effects) -> None:
    answers: list[bool] = []
    effects.commit([], [], answers.append)
    (commit,) = handled(effects)
    assert isinstance(commit, Commit)
    effects.answer(commit.token, False)
    effects.answer(commit.token, True)
    assert answers == [False]


def test_an_event_inside_an_event_is_a_fault(effects: Effects) -> None:
    """The shell handles one after the other."""
    effects.begin()
    with pytest.raises(AssertionError, match="one after the other"):
        effects.begin()


def fail() -> None:
    raise RuntimeError


def test_what_waits_for_the_end_of_a_turn_is_not_forgotten_when_another_fails(
    loop: Loop, effects: Effects
) -> None:
    done: list[str] = []
    effects.at_end_of_turn(lambda: done.append("first"))
    effects.at_end_of_turn(fail)
    effects.at_end_of_turn(lambda: done.append("last"))
    with pytest.raises(RuntimeError):
        effects.end_turn()
    assert (done, loop.wakes) == (["first"], 2)
    effects.end_turn()
    assert done == ["first", "last"]


def test_actions_of_an_event_that_fails_go_with_the_next_one(loop: Loop, effects: Effects) -> None:
    effects.begin()
    effects.add(Left())
    effects.abandon()
    assert loop.wakes == 1
    assert handled(effects) == [Left()]


def test_frames_for_one_node_that_follow_each_other_become_one_action(effects: Effects) -> None:
    effects.begin()
    effects.send_frame("a", [b"1", b"2"])
    effects.send_frame("a", [b"3"])
    effects.send_frame("b", [b"4"])
    effects.send_frame("a", [b"5"])
    effects.add(PublishState())
    effects.send_frame("a", [b"6"])
    assert effects.end() == [
        SendFrame("a", [b"1", b"2", b"3"]),
        SendFrame("b", [b"4"]),
        SendFrame("a", [b"5"]),
        PublishState(),
        SendFrame("a", [b"6"]),
    ]
    effects.send_frame("a", [b"7"])
    assert effects.end() == [SendFrame("a", [b"7"])], "what was returned grows no more"


def test_frames_of_one_action_are_bounded(effects: Effects) -> None:
    half = bytes(TOGETHER_BYTES_MAX // 2)
    for _ in range(5):
        effects.send_frame("a", [half])
    assert [len(action.buffers) for action in effects.end() if isinstance(action, SendFrame)] == [
        2, 2, 1,
    ]  # fmt: skip
