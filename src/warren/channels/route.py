"""Where a publish goes, as a channel remembers it, and whose count it adds to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.model.counters import ExchangeCounters
    from warren.queues.boundary import AbstractQueue


class Route:
    """`counters` are those of the exchange that is published to."""

    def __init__(self, queues: tuple[AbstractQueue, ...], counters: ExchangeCounters) -> None:
        self.queues = queues
        self.width = len(queues)
        self.counters = counters
