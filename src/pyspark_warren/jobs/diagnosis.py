"""Diagnosis of a node: from what is held up to what holds it up.

Pressure travels upstream: a stage that cannot keep up holds those before it. So the last one in
flow is just before the bottleneck.

    connections   channels   queues      the bottleneck is
    flow          running    running     routing: the processor that the node's loop runs on
    flow          flow       running     the queue: its index and journal, its mirrors, a link
    flow          flow       flow        the disk: large bodies, paging, a stream's log
    blocked                              an alarm: memory or disk space has run out

All of that holds for a node that gets a processor when it has work. On a machine that is starved it
does not: the loop has work all the time because it hardly runs, and everything is held up. So that
comes first, and is told from processor time beside wall time.

One moment tells little: a queue may be held for a blink in any overload. So windows of time vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

BUSY_PERCENT_MIN: Final = 80.0
"""A loop that has work for less of the time keeps up."""
RUNNING_SHARE_MIN: Final = 0.5
"""A loop runs for more of the time in which it has work, unless the machine is starved."""
STEAL_PERCENT_MIN: Final = 25.0


class Bottleneck(Enum):
    NONE = "none"
    MACHINE = "a starved machine"
    ROUTING = "routing CPU"
    QUEUE = "queue"
    DISK = "disk"
    ALARM = "alarm"


ADVICE: Final = {
    Bottleneck.NONE: "No connection is held up.",
    Bottleneck.MACHINE: "The machine is starved: the node's loop had work but got a processor for "
    "little of the time, because other programs or other virtual machines have them. Give the node "
    "processors of its own or move the others away; only then does it show what the node itself "
    "lacks.",
    Bottleneck.ROUTING: "The node's processor is busy with routing: spread connections over more "
    "nodes, or publish to fewer bindings.",
    Bottleneck.QUEUE: "A queue takes less than it is given: spread messages over more queues, "
    "look at its mirrors, or publish larger and fewer messages.",
    Bottleneck.DISK: "The disk takes less than it is given: use a faster one, smaller bodies, or "
    "consumers that keep up, so that less is written.",
    Bottleneck.ALARM: "Publishers are blocked until memory or disk space is free again.",
}


@dataclass(frozen=True, slots=True)
class LoopShares:
    """Per cent of a window in which the node's loop had work, and in which it ran.

    `ran` is None where that is not known; brokers that do not tell it tell the processor time of
    all their threads, which is no less.
    """

    busy: float = 0.0
    ran: float | None = None
    steal: float = 0.0

    @property
    def is_starved(self) -> bool:
        if self.busy < BUSY_PERCENT_MIN:
            return False
        waits = self.ran is not None and self.ran < RUNNING_SHARE_MIN * self.busy
        return waits or self.steal >= STEAL_PERCENT_MIN


@dataclass(frozen=True, slots=True)
class Held:
    """How many connections, channels and queues were held in one window, and what the loop did."""

    connections: int = 0
    channels: int = 0
    queues: int = 0
    blocked: int = 0
    loop: LoopShares = LoopShares()

    @property
    def bottleneck(self) -> Bottleneck:
        if self.blocked:
            return Bottleneck.ALARM
        if self.loop.is_starved:
            return Bottleneck.MACHINE
        if not self.connections:
            return Bottleneck.NONE
        if self.queues and self.channels:
            return Bottleneck.DISK
        return Bottleneck.QUEUE if self.channels else Bottleneck.ROUTING


@dataclass(frozen=True, slots=True)
class Diagnosis:
    bottleneck: Bottleneck
    windows: int
    """Windows that have a bottleneck."""
    share: float
    """The share of these that have this one."""

    def __str__(self) -> str:
        if self.bottleneck is Bottleneck.NONE:
            return "no bottleneck"
        return f"{self.bottleneck.value}, in {self.share:.0%} of {self.windows} windows"


def diagnose(windows: Iterable[Held]) -> Diagnosis:
    """Return what most of the windows say that have a bottleneck."""
    votes = Counter(held.bottleneck for held in windows)
    votes.pop(Bottleneck.NONE, None)
    if not votes:
        return Diagnosis(Bottleneck.NONE, 0, 0.0)
    (winner, count), *_ = votes.most_common(1)
    return Diagnosis(winner, votes.total(), count / votes.total())
