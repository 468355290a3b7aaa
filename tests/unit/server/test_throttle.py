"""Throttles of connections: how long a connection and its channels show that they were held up."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from manual_clock import ManualClock
from warren.channels.intake import Intake
from warren.flow.alarms import AlarmBoard
from warren.flow.brake import Brake
from warren.flow.credit import Credit
from warren.server.throttle import Throttle
from warren.wire.codec import FrameReader

CREDIT_BYTES = 100


class Publish(NamedTuple):
    channel: int


class ChargingIntake:
    """Stands for the channels of a connection: each publish charges a credit."""

    is_suspended = is_closed = False

    def __init__(self, credit: Credit) -> None:
        self._credit = credit

    def process(self, events: list[Any], start: int) -> int:
        self._credit.charge(CREDIT_BYTES * (len(events) - start))
        return len(events)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        brake = Brake(AlarmBoard(self.clock), self.clock)
        self.credit = Credit(CREDIT_BYTES)
        brake.watch(self.credit)
        reader = cast("FrameReader", None)  # read only under an alarm
        self.throttle = Throttle(brake, reader, None, lambda: None, request_timeout_ms=1_000)

    def publish(self, channel: int) -> None:
        intake = cast("Intake", ChargingIntake(self.credit))
        self.throttle.process(intake, [Publish(channel)], 0)

    def settle(self) -> None:
        self.credit.release(self.credit.bytes_used)
        self.clock.advance(0)

    @property
    def states(self) -> list[str]:
        """Of the connection and its first two channels."""
        return [self.throttle.state(), *map(self.throttle.channel_state, (1, 2))]


def test_a_channel_shows_flow_for_two_seconds_and_its_connection_for_five() -> None:
    world = World()
    assert world.states == ["running", "running", "running"]
    world.publish(channel=2)
    world.clock.advance(60_000)
    assert world.states == ["flow", "running", "flow"], "as long as it is held"
    world.settle()
    world.clock.advance(1_999)
    assert world.states == ["flow", "running", "flow"]
    world.clock.advance(1)
    assert world.states == ["flow", "running", "running"]
    world.clock.advance(2_999)
    assert world.states == ["flow", "running", "running"]
    world.clock.advance(1)
    assert world.states == ["running", "running", "running"]


def test_looks_do_not_prolong_flow() -> None:
    world = World()
    world.publish(channel=2)
    world.settle()
    seen = []
    for _ in range(600):
        seen.append(world.states)
        world.throttle.bottleneck()
        world.clock.advance(10)
    assert [states[0] for states in seen].count("flow") == 500
    assert [states[2] for states in seen].count("flow") == 200
