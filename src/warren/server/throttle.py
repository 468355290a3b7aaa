"""How one connection is held up: the careful way through what it sent, while the brake is on.

Under an alarm, everything is worked through up to the first publish; that one and all after it
wait, and the socket is not read any more. A connection that publishes nothing never notices. The
client hears connection.blocked once, if it said that it understands, and connection.unblocked
when no alarm is left. Deliveries, confirms and heartbeats are written all the while.

While the node is frozen, publishes are held in the same way, and requests for a while: see
`frozen`.

With a credit exhausted, events are taken one by one, and the first that charges it is the last
for now. The client is told nothing: this is over in milliseconds.

A connection gets a throttle the first time it meets the brake, so the ten thousand idle ones do
without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pamqp import commands

from warren.channels.intake import Intake
from warren.flow.brake import Brake
from warren.flow.credit import Credit
from warren.flow.states import (
    CHANNEL_MEMORY_MS,
    CONNECTION_MEMORY_MS,
    FlowRecord,
    Stage,
    connection_state,
    diagnose,
    state_of,
)
from warren.model.clock import TimerHandle
from warren.server.frozen import HeldRequests, pass_harmless
from warren.wire.codec import FrameReader, Message
from warren.wire.methods import Method

Tell: TypeAlias = Callable[[Method], None]


class Throttle:
    __slots__ = ("_brake", "_channel_flows", "_flow", "_is_told", "_reader", "_requests",
                 "_take_up", "_tell", "_timer", "is_stopped")  # fmt: skip

    def __init__(
        self,
        brake: Brake,
        reader: FrameReader,
        tell: Tell | None,
        take_up: Callable[[], None],
        request_timeout_ms: int,
    ) -> None:
        """`tell` sends to a client that knows connection.blocked; `take_up` goes on with what it
        had sent, and with reading."""
        self._requests = HeldRequests(request_timeout_ms)
        self._timer: TimerHandle | None = None
        self._brake = brake
        self._reader = reader
        self._tell = tell
        self._take_up = take_up
        self._is_told = False
        self._flow = FlowRecord()
        self._channel_flows: dict[int, FlowRecord] = {}
        self.is_stopped = False

    def process(self, intake: Intake, events: list[Any], start: int) -> int:
        """As `Intake.process`; with `is_stopped` after it, read no more."""
        if self.is_stopped:
            return start
        if self._brake.frozen_reason:
            return self._process_frozen(intake, events, start)
        if self._brake.has_alarm:
            return self._process_up_to_publish(intake, events, start)
        return self._process_in_steps(intake, events, start)

    def go_on(self) -> None:
        self._release()
        if self._is_told and self._tell is not None:
            self._tell(commands.Connection.Unblocked())
        self._is_told = False
        self._take_up()

    def end(self) -> None:
        """The connection is closing: nothing holds it any more."""
        self._brake.leave(self)
        self._release()

    def _process_up_to_publish(self, intake: Intake, events: list[Any], start: int) -> int:
        end = start
        while end < len(events) and type(events[end]) is not Message:
            end += 1
        position = intake.process(events[:end], start)
        # A header alone is a publish, too: its body may be the very thing we have no room for.
        has_publish = end < len(events) or self._reader.is_in_content()
        if has_publish and position == end and not intake.is_closed:
            self._stop_for_alarms()
        return position

    def _stop_for_alarms(self) -> None:
        self.is_stopped = True
        self._brake.wait_for_alarms(self)
        self._tell_blocked()

    def _process_frozen(self, intake: Intake, events: list[Any], start: int) -> int:
        """Leaves in the list what has to wait; one more read is looked at, then none."""
        held = events[start:] = pass_harmless(intake, events[start:])
        if held and not intake.is_closed:
            self._brake.wait_for_alarms(self)
            self._requests.look_at(held, self._brake.clock.now_ms())
            self._await_requests(intake)
            if any(type(event) is Message for event in held):
                self._tell_blocked()
        return start

    def _await_requests(self, intake: Intake) -> None:
        self._stop_timer()
        due_ms = self._requests.due_ms
        if due_ms is not None:
            wait_ms = max(0, due_ms - self._brake.clock.now_ms())
            self._timer = self._brake.clock.call_later(wait_ms, lambda: self._fail_overdue(intake))

    def _fail_overdue(self, intake: Intake) -> None:
        self._timer = None
        self._requests.fail_overdue(intake, self._brake.clock.now_ms())
        self._take_up()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell_blocked(self) -> None:
        if self._tell is not None and not self._is_told:
            self._tell(commands.Connection.Blocked(self._brake.blocked_reason))
            self._is_told = True

    def _process_in_steps(self, intake: Intake, events: list[Any], start: int) -> int:
        brake, position = self._brake, start
        while position < len(events) and not intake.is_suspended and not intake.is_closed:
            event = events[position]
            brake.clear_overdraft()
            position += intake.process([event], 0)
            if brake.overdrawn is not None and not intake.is_closed:
                self._stop_for_credit(brake.overdrawn, event.channel)
                break
        return position

    def _stop_for_credit(self, credit: Credit, channel: int) -> None:
        self.is_stopped = True
        self._brake.wait_for_credit(self, credit)
        self._flow.hold(credit.stage)
        if credit.stage > Stage.CHANNEL:
            self._channel_flows.setdefault(channel, FlowRecord()).hold(credit.stage)

    def _release(self) -> None:
        self.is_stopped = False
        self._stop_timer()
        now_ms = self._brake.clock.now_ms()
        self._flow.release(now_ms)
        for flow in self._channel_flows.values():
            flow.release(now_ms)
        self._channel_flows = {
            number: flow
            for number, flow in self._channel_flows.items()
            if flow.is_in_flow(now_ms, CHANNEL_MEMORY_MS)
        }

    def state(self, memory_ms: int = CONNECTION_MEMORY_MS) -> str:
        now_ms = self._brake.clock.now_ms()
        is_stopped = self.is_stopped or self._is_told
        return connection_state(self._flow, is_stopped, self._brake.has_alarm, now_ms, memory_ms)

    def channel_state(self, number: int, memory_ms: int = CHANNEL_MEMORY_MS) -> str:
        return state_of(self._channel_flows.get(number), self._brake.clock.now_ms(), memory_ms)

    def bottleneck(self) -> str:
        """What holds it up, or did so lately."""
        if self._brake.has_alarm and self.is_stopped:
            return f"an alarm: {self._brake.blocked_reason}"
        stage = self._flow.stage
        in_flow = self._flow.is_in_flow(self._brake.clock.now_ms(), CONNECTION_MEMORY_MS)
        if stage is None or not in_flow:
            return ""
        return diagnose(True, stage > Stage.CHANNEL, stage > Stage.QUEUE)
