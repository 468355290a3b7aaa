"""How flow control holds a client's connection up, as others see it."""

from __future__ import annotations

from warren.flow.states import (
    BLOCKING,
    CHANNEL_MEMORY_MS,
    CONNECTION_MEMORY_MS,
    FLOW,
    RUNNING,
    FlowRecord,
    Stage,
    diagnose,
)
from warren.server.context import ConnectionContext
from warren.server.read_gate import ReadGate
from warren.server.telemetry.states import BACKLOG_BYTES_MIN
from warren.server.throttle import Throttle


class ConnectionFlow:
    """A part of a connection. One that was never held up has no throttle."""

    __slots__ = ()

    _context: ConnectionContext
    _reading: ReadGate
    _throttle: Throttle | None

    def shown_state(self, memory_ms: int = CONNECTION_MEMORY_MS) -> str:
        """As RabbitMQ shows an open one; it is in flow so long after it was held."""
        if self._throttle is not None:
            return self._throttle.state(memory_ms)
        return BLOCKING if self._context.brake.has_alarm else RUNNING

    def state_and_backlog(self) -> str:
        """In flow, too, if the node's loop does not get round to what it has sent."""
        state = self.shown_state()
        if state == RUNNING and self._stage_behind(CONNECTION_MEMORY_MS) is not None:
            return FLOW
        return state

    def channel_state(self, number: int, memory_ms: int = CHANNEL_MEMORY_MS) -> str:
        """Return `flow` if a queue or the store holds the channel up, or did so lately."""
        if self._throttle is not None and self._throttle.channel_state(number, memory_ms) == FLOW:
            return FLOW
        stage = self._stage_behind(memory_ms)
        is_held = stage is not None and stage > Stage.CHANNEL and self._has_published(number)
        return FLOW if is_held else RUNNING

    def look_at_backlog(self, stage: Stage, now_ms: int) -> None:
        """Note it if more has come than a busy loop, at work for `stage`, has got round to."""
        if self.backlog_bytes >= BACKLOG_BYTES_MIN:
            behind = self._reading.behind = self._reading.behind or FlowRecord()
            behind.hold(stage)
            behind.release(now_ms)

    def _stage_behind(self, memory_ms: int) -> Stage | None:
        """Return what the loop was at when it was behind lately, if it was."""
        behind = self._reading.behind
        if behind is None or not behind.is_in_flow(self._context.clock.now_ms(), memory_ms):
            return None
        return behind.stage

    def _has_published(self, number: int) -> bool:
        raise NotImplementedError

    @property
    def was_ever_held(self) -> bool:
        return self._throttle is not None

    @property
    def bottleneck(self) -> str:
        """What holds its publishes up, for a person; empty if nothing does."""
        found = "" if self._throttle is None else self._throttle.bottleneck()
        stage = self._stage_behind(CONNECTION_MEMORY_MS)
        if found or stage is None or self.state_and_backlog() != FLOW:
            return found
        return diagnose(True, stage > Stage.CHANNEL, stage > Stage.QUEUE)

    @property
    def backlog_bytes(self) -> int:
        """What it has sent and nobody has got round to reading."""
        return self._reading.backlog_bytes
