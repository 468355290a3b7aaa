"""Load of the event loop over the last second: connections it is behind with, and because of what.

A loop that cannot keep up exhausts no credit; it just never sleeps, and what clients have sent
waits in the system's buffers (see `states`). Both come and go within milliseconds, and a look at
one instant may find the buffer of a connection empty that has been full all the time. So the loop
is looked at four times a second, and connections only while it was busy for most of that:

    busy for most of a second, and more bytes wait than a request has  ->  `flow`, for a while

**Stages.** All work is done by one loop, so its time does not say whether channels or queues are
too slow. What it works on does (the rows are those of `flow/states.py`):

    a good part of the store's credit waits for the disk         ->  the message store
    the same of the journal's credit, or most messages of that
    second were written to the index of a queue                  ->  the queues
    otherwise                                                    ->  the channels

**Cost.** An idle loop reads one line of /proc four times a second. A busy one asks the system
about BACKLOGS_PER_LOOK_MAX connections at most, in turn, which takes about a millisecond.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.flow.credit import Credit
from warren.flow.states import Stage
from warren.server.telemetry.busyness import Busyness
from warren.server.telemetry.states import BUSY_SHARE_MIN

if TYPE_CHECKING:
    from warren.server.connection import AmqpConnection

LOOK_MS: Final = 250
LOOKS: Final = 4
"""The share of a second counts, not that of a moment."""
BACKLOGS_PER_LOOK_MAX: Final = 500
INDEXED_SHARE_MIN: Final = 0.5
ROUTED_MIN: Final = 200
"""Fewer messages in a second are not what keeps a loop busy with routing."""
WAITING_SHARE_MIN: Final = 0.125
"""Of a credit: with less under way, the disk keeps up."""


class Work(NamedTuple):
    """Messages since the start: published by clients, and written to the index of a queue."""

    published: int
    indexed: int
    waits_for: Stage
    """Where bytes are under way to the disk at the moment; the channels if there are few."""


class LoopLoad:
    def __init__(
        self,
        open_connections: Callable[[], list[AmqpConnection]],
        count_work: Callable[[], Work],
        mark_storing_queues: Callable[[int], None],
        busyness: Busyness | None = None,
    ) -> None:
        """`mark_storing_queues` notes of queues with bodies on their way to the store that these
        wait for it, at the time that it is given."""
        self._mark_storing_queues = mark_storing_queues
        self._open_connections = open_connections
        self._count_work = count_work
        self._busyness = busyness or Busyness(looks=LOOKS)
        self._works: deque[Work] = deque(maxlen=LOOKS + 1)
        self._next = 0

    def look(self, now_ms: int) -> None:
        if self._busyness.look() < BUSY_SHARE_MIN:
            self._works.clear()
            return
        self._works.append(self._count_work())
        if len(self._works) == 1:
            return
        stage = stage_of(self._works[0], self._works[-1])
        if stage is None:
            return
        if stage is Stage.STORE:
            self._mark_storing_queues(now_ms)
        for connection in self._some_connections():
            connection.look_at_backlog(stage, now_ms)

    def _some_connections(self) -> list[AmqpConnection]:
        """Return as many as may be looked at: all have their turn."""
        connections = self._open_connections()
        start = self._next if self._next < len(connections) else 0
        self._next = start + BACKLOGS_PER_LOOK_MAX
        return connections[start : self._next]


def stage_of(before: Work, now: Work) -> Stage | None:
    """Return the stage that the work between two looks belongs to; None if there was little."""
    published = now.published - before.published
    indexed = now.indexed - before.indexed
    if indexed and indexed >= INDEXED_SHARE_MIN * published:
        return max(now.waits_for, Stage.QUEUE)
    if now.waits_for > Stage.CHANNEL:
        return now.waits_for
    return Stage.CHANNEL if published >= ROUTED_MIN else None


def waits_for(bounds: Iterable[Credit]) -> Stage:
    """Return the last stage that a good part of a credit waits for."""
    behind = [
        each.stage for each in bounds if each.bytes_used >= WAITING_SHARE_MIN * each.bytes_max
    ]
    return max(behind, default=Stage.CHANNEL)
