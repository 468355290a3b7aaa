"""Steady clients: publishers at a given rate, and consumers that are a little slower.

So there is always a backlog, and each consumer always has deliveries that it has not acknowledged.
Consumers acknowledge some deliveries one by one and others up to a tag (`multiple`).
"""

from __future__ import annotations

import time
from typing import Any, Final

from cluster_chaos.mail_clients import BACKLOG_MAX, Consumer, Publisher
from cluster_chaos.talking import Talk

RATE: Final = 250.0
"""Messages a second, by each publisher."""
ACKED_SHARE: Final = 0.9
STEADY_PREFETCH: Final = 100
OPEN_MAX: Final = 2_000
"""Publishes without an answer: a publisher does not wait for each, and not for ever either."""
ACKED_AT_ONCE_MAX: Final = 20


class Pace:
    """How many are due, at a rate; what was missed while nothing could be done stays missed."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._at = time.monotonic()

    def due(self) -> int:
        now = time.monotonic()
        self._at = max(self._at, now - 1.0)
        count = int((now - self._at) * self._rate)
        self._at += count / self._rate
        return count


class SteadyPublisher(Publisher):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pace = Pace(RATE)

    def step(self, talk: Talk) -> None:
        due = self._pace.due()
        if self.expected.backlog() < BACKLOG_MAX:
            for _ in range(due):
                self._publish(talk, self._choose())
        self._idle(talk, 0.005)
        self._answers(talk, OPEN_MAX)


class SlowConsumer(Consumer):
    prefetch = STEADY_PREFETCH

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pace = Pace(RATE * ACKED_SHARE)
        self._may_ack = 0

    def step(self, talk: Talk) -> None:
        frame = talk.receive(0.02)
        while frame is not None:
            self.take(talk, frame)
            frame = talk.receive(0.0) if self.gate.is_open else None
        self._settle(talk, 0)

    def _settle(self, talk: Talk, left: int) -> None:
        if self.hurry:
            super()._settle(talk, left)
            return
        self._may_ack = min(self._may_ack + self._pace.due(), STEADY_PREFETCH)
        while self._may_ack and self._unsettled:
            wanted = self.chance.choice([1, 1, self.chance.randint(1, ACKED_AT_ONCE_MAX)])
            count = min(self._may_ack, len(self._unsettled), wanted)
            tags = [self._unsettled.popleft() for _ in range(count)]
            talk.send("basic.ack", delivery_tag=tags[-1], multiple=count > 1)
            self._may_ack -= count
