"""From who is held up to what holds them up.

Pressure travels upstream: whoever cannot keep up holds those before it. So the last one in flow is
just before the bottleneck.

    connections   channels   queues      the bottleneck is
    flow          running    running     routing: the processor that the node's loop runs on
    flow          flow       running     the queue: its index and journal, its mirrors, a link
    flow          flow       flow        the disk: large bodies, paging, a stream's log
    blocked                              an alarm: memory or disk space has run out

One moment tells little: a queue may be held for a blink in any overload. So windows of time vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Bottleneck(Enum):
    NONE = "none"
    ROUTING = "routing CPU"
    QUEUE = "queue"
    DISK = "disk"
    ALARM = "alarm"


ADVICE = {
    Bottleneck.NONE: "Nobody is held up.",
    Bottleneck.ROUTING: "The node's processor is busy with routing: spread connections over more "
    "nodes, or publish to fewer bindings.",
    Bottleneck.QUEUE: "A queue takes less than it is given: spread messages over more queues, "
    "look at its mirrors, or publish larger and fewer messages.",
    Bottleneck.DISK: "The disk takes less than it is given: a faster one, smaller bodies, or "
    "consumers that keep up, so that less is written.",
    Bottleneck.ALARM: "Publishers are blocked until memory or disk space is free again.",
}


@dataclass(frozen=True, slots=True)
class Held:
    """How many were held in one window."""

    connections: int = 0
    channels: int = 0
    queues: int = 0
    blocked: int = 0

    @property
    def bottleneck(self) -> Bottleneck:
        if self.blocked:
            return Bottleneck.ALARM
        if not self.connections:
            return Bottleneck.NONE
        if self.queues and self.channels:
            return Bottleneck.DISK
        return Bottleneck.QUEUE if self.channels else Bottleneck.ROUTING


@dataclass(frozen=True, slots=True)
class Diagnosis:
    bottleneck: Bottleneck
    windows: int
    """In which somebody was held."""
    share: float
    """Of those, that say so."""

    def __str__(self) -> str:
        if self.bottleneck is Bottleneck.NONE:
            return "no bottleneck"
        return f"{self.bottleneck.value}, in {self.share:.0%} of {self.windows} windows"


def diagnose(windows: Iterable[Held]) -> Diagnosis:
    """What most windows say, of those in which somebody was held."""
    votes = Counter(held.bottleneck for held in windows)
    votes.pop(Bottleneck.NONE, None)
    if not votes:
        return Diagnosis(Bottleneck.NONE, 0, 0.0)
    (winner, count), *_ = votes.most_common(1)
    return Diagnosis(winner, votes.total(), count / votes.total())
