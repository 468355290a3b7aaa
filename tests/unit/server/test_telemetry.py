"""What telemetry is decided by: who is held up, who has changed, how busy the loop is."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from warren.flow.states import MEMORY_MS
from warren.server.sockets import unread_bytes
from warren.server.telemetry.busyness import Busyness, LoopTimes, LoopUse, Steal, awake_ns
from warren.server.telemetry.rounds import UNCHANGED_MS, Rounds
from warren.server.telemetry.states import BACKLOG_BYTES_MIN, Backlogs, StateWatch, Turn


def test_a_change_of_state_is_told_once_with_how_long_the_one_before_lasted() -> None:
    watch = StateWatch[str]()
    told = []
    for now_ms, state in enumerate(["running", "flow", "flow", "blocked", "running", "running"]):
        told.append(watch.look("c", state, now_ms * 500))
        watch.end()
    assert told == [
        None,
        Turn("flow", "running", 0),
        None,
        Turn("blocked", "flow", 1_000),
        Turn("running", "blocked", 500),
        None,
    ]


def test_what_is_gone_is_forgotten_and_counts_no_more() -> None:
    watch = StateWatch[str]()
    for name, state in (("a", "flow"), ("b", "flow"), ("c", "blocked"), ("d", "running")):
        watch.look(name, state, 0)
    watch.end()
    assert (watch.count("flow"), watch.count("blocked")) == (2, 1)
    assert (watch.state_of("a"), watch.state_of("d")) == ("flow", "running")
    watch.look("a", "flow", 500)
    watch.end()
    assert (watch.count("flow"), watch.state_of("b")) == (1, "running")


def test_being_behind_takes_more_than_a_request_and_is_remembered_for_a_while() -> None:
    backlogs = Backlogs[str]()
    waiting = {0: 0, 500: BACKLOG_BYTES_MIN - 1, 1_000: BACKLOG_BYTES_MIN, 1_999: 0, 2_000: 0}
    shown = []
    for now_ms, backlog_bytes in waiting.items():
        shown.append(backlogs.is_behind("c", backlog_bytes, now_ms))
        backlogs.end()
    assert shown == [False, False, True, True, False]
    assert MEMORY_MS == 1_000


def test_what_a_client_has_sent_and_nobody_has_read_can_be_seen() -> None:
    here, there = socket.socketpair()
    with here, there:
        transport = asyncio.BaseTransport({"socket": here})
        assert unread_bytes(transport) == 0
        there.sendall(bytes(1_234))
        assert unread_bytes(transport) == 1_234
    assert unread_bytes(transport) == 0, "it is closed"
    assert unread_bytes(asyncio.BaseTransport()) == 0


def test_told_is_what_has_changed_and_now_and_then_what_has_not() -> None:
    rounds = Rounds[str]()

    def tell(now_ms: int, **figures: int) -> list[str]:
        things = rounds.begin(list(figures), now_ms)
        told = [thing for thing in things if rounds.is_due(thing, figures[thing])]
        rounds.end()
        return told

    assert tell(0, a=1, b=1) == ["a", "b"]
    assert tell(5_000, a=1, b=2) == ["b"]
    assert tell(UNCHANGED_MS, a=1, b=2) == ["a"]
    assert tell(UNCHANGED_MS + 1, b=2) == []
    assert tell(UNCHANGED_MS + 2, a=1, b=2) == ["a"], "it was gone, so it is new"


def test_more_than_may_be_told_have_their_turn_and_are_counted() -> None:
    rounds = Rounds[int](told_max=3)
    told: list[list[int]] = []
    for number in range(4):
        things = rounds.begin(list(range(8)), number)
        told.append([thing for thing in things if rounds.is_due(thing, number)])
        rounds.end()
        assert rounds.left_out == 5
    assert told == [[0, 1, 2], [3, 4, 5], [6, 7, 0], [1, 2, 3]]


def test_how_busy_a_thread_is_says_the_time_it_did_not_sleep() -> None:
    times = iter([0, 30, 130, 130])
    clock = iter([0, 100, 200, 300])
    busyness = Busyness(lambda: next(times), lambda: next(clock))
    assert busyness.look() == pytest.approx(0.3)
    assert busyness.look() == 1.0
    assert busyness.look() == 0.0
    assert awake_ns() > 0


def test_a_loop_that_gets_no_processor_is_told_apart_from_one_that_works() -> None:
    times = iter([LoopTimes(0, 0), LoopTimes(100, 700), LoopTimes(1_100, 700)])
    clock = iter([0, 1_000, 2_000])
    use = LoopUse(lambda: next(times), lambda: next(clock))
    assert [use.look(), use.look()] == [(0.1, 0.7), (1.0, 0.0)]


def test_stolen_time_is_a_share_of_all_processors(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 0 10 80 0 0 0 100 7 7\ncpu0 1 2 3\n")
    steal = Steal(stat)
    stat.write_text("cpu  20 0 20 140 0 0 0 120 9 9\n")
    assert steal.look() == 0.2
    assert steal.look() == 0.0, "no time has passed"
    stat.unlink()
    assert steal.look() == 0.0, "a system that does not say"
