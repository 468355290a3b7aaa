"""How flow control holds a client's connection up, as others see it."""

from __future__ import annotations

from warren.flow.states import BLOCKING, CONNECTION_MEMORY_MS, FLOW, RUNNING, diagnose
from warren.server.context import ConnectionContext
from warren.server.read_gate import ReadGate
from warren.server.telemetry.states import BACKLOG_BYTES_MIN, BUSY_SHARE_MIN
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
        is_loop_busy = self._context.busyness.share >= BUSY_SHARE_MIN
        if state == RUNNING and is_loop_busy and self.backlog_bytes >= BACKLOG_BYTES_MIN:
            return FLOW
        return state

    def channel_state(self, number: int) -> str:
        return RUNNING if self._throttle is None else self._throttle.channel_state(number)

    @property
    def was_ever_held(self) -> bool:
        return self._throttle is not None

    @property
    def bottleneck(self) -> str:
        """What holds its publishes up, for a person; empty if nothing does."""
        found = "" if self._throttle is None else self._throttle.bottleneck()
        return found or diagnose(self.state_and_backlog() == FLOW, False, False)

    @property
    def backlog_bytes(self) -> int:
        """What it has sent and nobody has got round to reading."""
        return self._reading.backlog_bytes
