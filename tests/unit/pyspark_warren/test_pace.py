"""So many messages a second and no more."""

from __future__ import annotations

from pyspark_warren.pace import Pace, at_once


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_messages_are_spread_evenly_over_time() -> None:
    clock = Clock()
    pace = Pace(10, lambda: clock.now, clock.sleep)
    moments = []
    for _ in range(5):
        pace.wait()
        moments.append(round(clock.now, 6))
    assert moments == [0.0, 0.1, 0.2, 0.3, 0.4]


def test_a_pause_is_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(10, lambda: clock.now, clock.sleep)
    pace.wait()
    clock.now = 60.0
    pace.wait()
    pace.wait()
    assert round(clock.now, 6) == 60.1


def test_those_that_go_together_are_due_together() -> None:
    clock = Clock()
    pace = Pace(1_000, lambda: clock.now, clock.sleep)
    for _ in range(4):
        pace.wait(10)
    assert round(clock.now, 6) == 0.03
    assert (at_once(1), at_once(100), at_once(5_000)) == (1, 1, 50)
