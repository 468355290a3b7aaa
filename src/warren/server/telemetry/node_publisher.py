"""The node tells of itself: every half second who is held up, every interval what it counts.

Nothing is looked at while nobody wants to hear of it. What is looked at is looked at in slices, so
that clients go on meanwhile. docs/TELEMETRY.md has the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from warren.flow.states import MEMORY_MS
from warren.server.telemetry.states_publisher import (
    CHANNEL_STATE,
    CONNECTION_STATE,
    QUEUE_STATE,
    StatesPublisher,
)
from warren.server.telemetry.stats_publisher import (
    CHANNEL_STATS,
    CONNECTION_STATS,
    NODE_STATS,
    QUEUE_STATS,
    StatsPublisher,
)

if TYPE_CHECKING:
    from warren.server.telemetry.observed_node import ObservedNode

STATE_INTERVAL_MS: Final = MEMORY_MS // 2
"""Shorter than what was held is remembered: nobody is missed."""
_EVENTS: Final = (
    NODE_STATS, QUEUE_STATS, CONNECTION_STATS, CHANNEL_STATS,
    QUEUE_STATE, CONNECTION_STATE, CHANNEL_STATE,
)  # fmt: skip


class Telemetry:
    def __init__(self, node: ObservedNode) -> None:
        self._node = node
        self._interval_ms = node.config.telemetry_interval_ms
        self._due_ms = 0
        self._tellers: tuple[StatesPublisher, StatsPublisher] | None = None
        self._under_way: Iterator[None] | None = None

    def start(self) -> None:
        context = self._node.context
        context.timers.call_later(min(STATE_INTERVAL_MS, self._interval_ms), self.start)
        if not any(self._node.broker.events.wants(event) for event in _EVENTS):
            self._tellers = None
        elif self._under_way is None:
            self._go_on(self._round(context.clock.now_ms()))

    def _round(self, now_ms: int) -> Iterator[None]:
        if self._tellers is None:
            states = StatesPublisher(self._node)
            self._tellers = states, StatsPublisher(self._node, states)
            self._due_ms = now_ms + self._interval_ms
        states, figures = self._tellers
        yield from states.look()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + self._interval_ms
            yield from figures.tell()

    def _go_on(self, steps: Iterator[None]) -> None:
        """One that fails is over, and the loop reports it; the next one begins anew."""
        self._under_way = None
        for _ in steps:
            self._under_way = steps
            asyncio.get_running_loop().call_soon(self._go_on, steps)
            return
