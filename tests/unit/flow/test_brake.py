from __future__ import annotations

from collections.abc import Callable

from manual_clock import ManualClock
from warren.flow.alarms import AlarmBoard, Resource
from warren.flow.brake import RESUMED_PER_TURN_MAX, Brake
from warren.flow.credit import Credit
from warren.flow.states import FlowRecord

NODE = "warren@here"


class Waiter:
    def __init__(self, went_on: list[Waiter], then: Callable[[], None] | None = None) -> None:
        self._went_on = went_on
        self._then = then

    def go_on(self) -> None:
        self._went_on.append(self)
        if self._then is not None:
            self._then()


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.board = AlarmBoard(self.clock)
        self.brake = Brake(self.board, self.clock)
        self.credit = Credit(100)
        self.brake.watch(self.credit)
        self.went_on: list[Waiter] = []

    def blocked(self, count: int) -> list[Waiter]:
        waiters = [Waiter(self.went_on) for _ in range(count)]
        for waiter in waiters:
            self.brake.wait_for_alarms(waiter)
        return waiters

    def turn(self) -> None:
        self.clock.advance(0)


def test_it_is_off_while_nothing_is_wrong() -> None:
    assert not World().brake.is_on


def test_an_alarm_switches_it_on_and_its_end_off() -> None:
    world = World()
    world.board.set(NODE, Resource.DISK)
    assert world.brake.is_on
    assert world.brake.has_alarm
    world.board.clear(NODE, Resource.DISK)
    assert not world.brake.is_on


def test_the_blocked_go_on_in_order_when_the_last_alarm_is_over() -> None:
    world = World()
    world.board.set(NODE, Resource.DISK)
    world.board.set(NODE, Resource.MEMORY)
    waiters = world.blocked(3)
    world.board.clear(NODE, Resource.DISK)
    world.turn()
    assert world.went_on == []
    world.board.clear(NODE, Resource.MEMORY)
    assert world.brake.is_on, "until they have gone on"
    world.turn()
    assert world.went_on == waiters
    assert not world.brake.is_on


def test_few_go_on_in_one_turn() -> None:
    world = World()
    world.board.set(NODE, Resource.DISK)
    count = 2 * RESUMED_PER_TURN_MAX + 1
    seen: list[int] = []

    def look() -> None:
        seen.append(len(world.went_on))
        if world.brake.is_on:
            world.clock.call_later(0, look)

    waiters = world.blocked(count)
    world.board.clear(NODE, Resource.DISK)
    look()
    world.turn()
    assert seen == [0, RESUMED_PER_TURN_MAX, 2 * RESUMED_PER_TURN_MAX, count]
    assert world.went_on == waiters


def test_an_alarm_that_returns_meanwhile_keeps_the_rest_waiting() -> None:
    world = World()
    world.board.set(NODE, Resource.DISK)
    first = Waiter(world.went_on, lambda: world.board.set(NODE, Resource.MEMORY))
    world.brake.wait_for_alarms(first)
    world.blocked(2)
    world.board.clear(NODE, Resource.DISK)
    world.turn()
    assert world.went_on == [first]
    assert world.brake.is_on


def test_an_exhausted_credit_switches_it_on_until_it_is_available() -> None:
    world = World()
    world.credit.charge(100)
    assert world.brake.is_on
    assert world.brake.overdrawn is world.credit
    world.credit.release(100)
    assert not world.brake.is_on


def test_it_can_be_asked_who_overdraws() -> None:
    world = World()
    world.credit.charge(100)
    world.brake.clear_overdraft()
    assert world.brake.overdrawn is None
    world.credit.charge(1)
    assert world.brake.overdrawn is world.credit


def test_those_who_wait_for_a_credit_go_on_while_it_lasts() -> None:
    world = World()
    world.credit.charge(100)
    waiters = [Waiter(world.went_on, lambda: world.credit.charge(40)) for _ in range(4)]
    for waiter in waiters:
        world.brake.wait_for_credit(waiter, world.credit)
    world.credit.release(60)
    world.turn()
    assert world.went_on == waiters[:2], "the second has used it up again"
    world.credit.release(world.credit.bytes_used)
    world.turn()
    assert world.went_on == waiters
    assert not world.credit.is_exhausted
    assert not world.brake.is_on


def test_alarms_do_not_keep_those_waiting_who_wait_for_a_credit() -> None:
    """They go on, and find out about the alarm by themselves when they publish."""
    world = World()
    world.credit.charge(100)
    waiter = Waiter(world.went_on)
    world.brake.wait_for_credit(waiter, world.credit)
    world.board.set(NODE, Resource.MEMORY)
    world.credit.release(100)
    world.turn()
    assert world.went_on == [waiter]
    assert world.brake.is_on


def test_whoever_leaves_is_not_called() -> None:
    world = World()
    world.board.set(NODE, Resource.DISK)
    world.credit.charge(100)
    gone, waiting = world.blocked(1)[0], Waiter(world.went_on)
    world.brake.wait_for_credit(waiting, world.credit)
    world.brake.leave(gone)
    world.brake.leave(waiting)
    world.board.clear(NODE, Resource.DISK)
    world.credit.release(100)
    world.turn()
    assert world.went_on == []
    assert not world.brake.is_on


def test_a_forgotten_credit_holds_nobody() -> None:
    """Its store is closed while publishers wait for it."""
    world = World()
    world.credit.charge(100)
    waiter = Waiter(world.went_on)
    world.brake.wait_for_credit(waiter, world.credit)
    world.brake.forget(world.credit)
    world.turn()
    assert world.went_on == [waiter]
    world.credit.charge(100)
    assert not world.brake.is_on


def test_a_queue_in_debt_is_let_go_when_there_is_room() -> None:
    world = World()
    queue = FlowRecord()
    world.credit.charge(100, queue)
    assert queue.is_held
    world.credit.release(100)
    assert not queue.is_held
    assert queue.is_in_flow(world.clock.now_ms())
