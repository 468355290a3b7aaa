"""The timer wheel against a clock that the test turns by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from warren.server.timer_wheel import SLOT_MS, VISITS_PER_TURN_MAX, TimerWheel


class Alarm:
    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandClock:
    def __init__(self) -> None:
        self.time_ms = 12_345
        self.alarms: list[Alarm] = []

    def now_ms(self) -> int:
        return self.time_ms

    def wall_seconds(self) -> int:
        return self.time_ms // 1000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Alarm:
        self.alarms.append(Alarm(self.time_ms + delay_ms, callback))
        return self.alarms[-1]

    def pending(self) -> list[Alarm]:
        return [alarm for alarm in self.alarms if not alarm.is_cancelled]

    def turn(self) -> None:
        """Ring what is due now, as one turn of a loop does; what that sets waits for the next."""
        due = [alarm for alarm in self.pending() if alarm.due_ms <= self.time_ms]
        for alarm in due:
            self.alarms.remove(alarm)
            alarm.callback()

    def advance(self, ms: int) -> None:
        for _ in range(ms):
            self.time_ms += 1
            self.turn()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.mark.parametrize("delay_ms", [0, 1, 99, 100, 101, 2_500])
def test_a_timer_is_never_early_and_late_by_a_slot_at_most(clock: HandClock, delay_ms: int) -> None:
    wheel, rung = TimerWheel(clock), list[int]()
    start = clock.now_ms()
    wheel.call_later(delay_ms, lambda: rung.append(clock.now_ms()))
    clock.advance(delay_ms + SLOT_MS + 1)
    assert len(rung) == 1
    assert delay_ms <= rung[0] - start <= delay_ms + SLOT_MS


def test_timers_ring_in_the_order_of_their_slots(clock: HandClock) -> None:
    wheel, rung = TimerWheel(clock), list[str]()
    wheel.call_later(900, lambda: rung.append("late"))
    wheel.call_later(300, lambda: rung.append("early"))
    wheel.call_later(600, lambda: rung.append("between"))
    clock.advance(1_100)
    assert rung == ["early", "between", "late"]


def test_a_cancelled_timer_stays_silent(clock: HandClock) -> None:
    wheel, rung = TimerWheel(clock), list[str]()
    timer = wheel.call_later(200, lambda: rung.append("cancelled"))
    wheel.call_later(200, lambda: rung.append("kept"))
    timer.cancel()
    clock.advance(400)
    assert rung == ["kept"]


def test_however_many_timers_the_loop_knows_of_one(clock: HandClock) -> None:
    wheel = TimerWheel(clock)
    for delay_ms in range(0, 5_000, 7):
        wheel.call_later(delay_ms, lambda: None)
    assert len(clock.pending()) == 1


def test_with_nothing_to_wait_for_the_loop_knows_of_none(clock: HandClock) -> None:
    wheel = TimerWheel(clock)
    wheel.call_later(50, lambda: None)
    clock.advance(300)
    assert clock.pending() == []


def test_a_callback_may_set_its_timer_anew(clock: HandClock) -> None:
    wheel, rung = TimerWheel(clock), list[int]()

    def ring() -> None:
        rung.append(clock.now_ms())
        wheel.call_later(500, ring)

    wheel.call_later(500, ring)
    clock.advance(3_100)
    assert len(rung) == 5


def test_one_turn_makes_a_bounded_number_of_visits(clock: HandClock) -> None:
    wheel, rung = TimerWheel(clock), list[int]()
    for number in range(VISITS_PER_TURN_MAX * 2 + 1):
        wheel.call_later(10, lambda number=number: rung.append(number))
    clock.time_ms += 1_000
    counts = []
    for _ in range(4):
        clock.turn()
        counts.append(len(rung))
    assert counts == [500, 1000, 1001, 1001]
    assert rung == sorted(rung)


def test_a_callback_that_raises_does_not_stop_the_others(clock: HandClock) -> None:
    wheel, rung = TimerWheel(clock), list[str]()

    def fail() -> None:
        raise RuntimeError("a bug")

    wheel.call_later(10, fail)
    wheel.call_later(10, lambda: rung.append("after"))
    clock.time_ms += 200
    with pytest.raises(RuntimeError):
        clock.turn()
    clock.turn()
    assert rung == ["after"]


def test_a_closed_wheel_forgets_everything(clock: HandClock) -> None:
    wheel, rung = TimerWheel(clock), list[str]()
    wheel.call_later(10, lambda: rung.append("x"))
    wheel.close()
    clock.advance(500)
    assert rung == []
    assert clock.pending() == []
