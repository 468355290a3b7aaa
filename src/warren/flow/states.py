"""What is shown of flow control: who was held up lately, and what that says about the bottleneck.

Publishers are held up for milliseconds at a time, so a look at the present would nearly always
find nothing. RabbitMQ therefore goes on showing `flow` for a while after each time: five seconds
for a connection, one for a channel or queue. Then a connection that is held every two seconds shows
`flow`, and its channel mostly does not, which blames the wrong stage. Under a steady load a channel
is held again within a second, or little more. So here the API shows channels and queues in `flow`
for two seconds (telemetry, all three for one), counted from the end of the last time: long enough
to name the right stage in nine looks of ten, and short enough to see that the load has ended.

Pressure travels upstream. A stage that cannot keep up holds those before it, so the last one
that shows `flow` is just before the bottleneck:

    connection ──► channel ──► queue ──► store
       flow                                      channels: routing, permissions
       flow         flow                         queues, or their index
       flow         flow        flow             the message store
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

CONNECTION_MEMORY_MS: Final = 5_000
CHANNEL_MEMORY_MS: Final = 2_000
"""For channels and queues in the API."""
MEMORY_MS: Final = 1_000
"""For everything in telemetry."""

RUNNING: Final = "running"
BLOCKING: Final = "blocking"
BLOCKED: Final = "blocked"
FLOW: Final = "flow"


class Stage(IntEnum):
    """Who could not keep up. Everything before it shows `flow`."""

    CHANNEL = 1
    QUEUE = 2
    STORE = 3


class FlowRecord:
    """Of one connection, channel or queue."""

    __slots__ = ("_released_at_ms", "is_held", "stage")

    def __init__(self) -> None:
        self.is_held = False
        self.stage: Stage | None = None
        """Who held it last."""
        self._released_at_ms: int | None = None

    def hold(self, stage: Stage) -> None:
        self.is_held = True
        self.stage = stage

    def release(self, now_ms: int) -> None:
        if self.is_held:
            self.is_held = False
            self._released_at_ms = now_ms

    def is_in_flow(self, now_ms: int, memory_ms: int = MEMORY_MS) -> bool:
        if self.is_held:
            return True
        return self._released_at_ms is not None and now_ms - self._released_at_ms < memory_ms


def state_of(record: FlowRecord | None, now_ms: int, memory_ms: int = MEMORY_MS) -> str:
    """Return the state of a channel or a queue; no record means that it was never held."""
    return FLOW if record is not None and record.is_in_flow(now_ms, memory_ms) else RUNNING


def connection_state(
    record: FlowRecord | None,
    is_stopped: bool,
    has_alarm: bool,
    now_ms: int,
    memory_ms: int = CONNECTION_MEMORY_MS,
) -> str:
    """Of an open connection. `is_stopped`: nothing is read from its socket for now."""
    if has_alarm:
        return BLOCKED if is_stopped else BLOCKING
    if record is not None and record.is_in_flow(now_ms, memory_ms):
        return FLOW
    return BLOCKED if is_stopped else RUNNING


def diagnose(connection_flow: bool, channel_flow: bool, queue_flow: bool) -> str:
    """Where to look, for a person; empty if nothing is held up."""
    if queue_flow:
        return "the message store: disk (large persistent messages?)"
    if channel_flow:
        return "the queues: CPU, or their index: disk (many small persistent messages?)"
    if connection_flow:
        return "the channels: CPU for routing and permissions (many small transient messages?)"
    return ""
