"""Gathering: what the masters of this node tell their mirrors, sent for many queues at once.

A batch of one queue costs each node of its ring a frame, a wake-up and a sync of the disk, whether
it brings one message or a hundred; and so does a batch of any other queue on the same node. So
messages wait a little for others, of their own queue and of all queues (`SOON`), and go out
together: one write for each neighbour, one sync on each disk, one answer.

A message waits while a batch is under way, and goes as soon as mirrors hold that, or after
`SOON_MS`: a publisher who is faster than the ring fills the next batch meanwhile. As long as no
more than a few queues (`FEW_QUEUES`) have had messages lately, nobody waits for anything else.

Where there are more, messages also wait for each other: the next gathering is `SOON_MS` after the
last one, or `CROWDED_MS` where there are very many (`MANY_QUEUES`). A publisher who waits for each
confirm before it publishes to the next queue would wait here each time, in vain: so when a
gathering has brought nothing but the message that waited, the next ones (`ALONE_MAX`) do not wait,
unless a batch is under way.

Many messages of one queue need no company: they go when the turn ends (`NOW`). Removals
can wait longer (`LATER`), since nobody waits for them: a mirror that lacks one redelivers a message
after a failover, marked as redelivered. They go with the next batch of their queue.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from warren.cluster.effects import Effects
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.outbox import LATER, NOW
from warren.replication.replica import Replica

SOON_MS: Final = 4
CROWDED_MS: Final = 8
LATER_MS: Final = 100
"""Removals go after at least so long, and at most twice as long."""
FLUSHED_PER_TURN_MAX: Final = 256
"""Queues whose masters tell their mirrors something in one turn of the loop: about 10 ms."""
ALONE_MAX: Final = 256
"""Gatherings that do not wait after one that waited in vain."""
FEW_QUEUES: Final = 4
"""So many queues are no crowd: a message of one of them does not wait for the others' to come."""
MANY_QUEUES: Final = 128
"""More than these fill a gathering so well that a longer wait costs each less than it saves."""
LATELY_MS: Final = 100
"""The time in which queues with messages are counted: that of ten messages a second."""


class Gathering:
    def __init__(self, effects: Effects, now_ms: Callable[[], int]) -> None:
        self._effects = effects
        self._now_ms = now_ms
        self._gathered_ms = 0
        """When messages went out last."""
        self._crowd: set[int] = set()
        """Identities of the replicas that were flushed since `_crowd_began_ms`."""
        self._crowd_began_ms = 0
        self._soon_ms = 0
        """The time from one gathering to the next, by the queues that had messages lately."""
        self._alone = 0
        """Gatherings that need not wait, as nobody else comes."""
        self._soon: dict[Replica, None] = {}
        self._later: dict[Replica, None] = {}
        self._older: dict[Replica, None] = {}
        """Replicas of `_later` that have waited since the timer before."""
        self._busy: dict[MasterBacking, None] = {}
        """Masters that had a batch under way when they were last asked."""
        self._is_going = False
        self._soon_timer: int | None = None
        self._is_later_set = False

    def flush_due(self, replica: Replica, urgency: int) -> None:
        """Have the replica flushed, at the latest when its urgency says."""
        if urgency == LATER:
            self._later[replica] = None
            if not self._is_later_set:
                self._is_later_set = True
                self._effects.call_later(LATER_MS, self._later_fired)
            return
        self._soon[replica] = None
        if self._is_going:
            return
        if urgency == NOW:
            self._go_when_turn_ends()
        elif self._soon_timer is None:  # else others wait already, and it goes with them
            if self._must_wait():
                wait_ms = max(self._soon_ms, SOON_MS)
                self._soon_timer = self._effects.call_later(wait_ms, self._soon_fired)
            else:
                self._go_when_turn_ends()

    def held(self) -> None:
        """Mirrors hold more than before: what has waited for that may go."""
        if self._soon and not self._is_going and not self._must_wait():
            self._go_when_turn_ends()

    def _must_wait(self) -> bool:
        may_wait = self._soon_ms and not self._alone
        if may_wait and self._now_ms() - self._gathered_ms < self._soon_ms:
            return True
        return self._is_any_under_way()

    def _is_any_under_way(self) -> bool:
        """Forget masters whose batches are all held, or that lead no more."""
        while self._busy:
            master = next(iter(self._busy))
            del self._busy[master]
            if not master.is_deposed and not master.under_way.is_clear:
                self._busy[master] = None  # last, so that next time another one is looked at
                return True
        return False

    def _go_when_turn_ends(self) -> None:
        self._is_going = True
        self._effects.at_end_of_turn(self._go)

    def _soon_fired(self) -> None:
        self._soon_timer = None
        if self._message_count() == 1:
            self._alone = ALONE_MAX
        self._go()

    def _message_count(self) -> int:
        masters = [replica.master for replica in self._soon]
        return sum(master.outbox.message_count for master in masters if master is not None)

    def _later_fired(self) -> None:
        """Send what has waited twice as long as the timer. Most has gone with messages by then."""
        older, self._older, self._later = self._older, self._later, {}
        self._is_later_set = bool(self._older)
        if self._is_later_set:
            self._effects.call_later(LATER_MS, self._later_fired)
        if older:
            self._soon.update(older)
            self._go()

    def _go(self) -> None:
        self._is_going = False
        if self._soon_timer is not None:
            self._effects.cancel(self._soon_timer)
            self._soon_timer = None
        self._gathered_ms = self._now_ms()
        self._alone = max(self._alone - 1, 0)
        self._count_crowd()
        due, self._soon = self._soon, {}
        try:
            for replica in list(islice(due, FLUSHED_PER_TURN_MAX)):
                del due[replica]
                self._flush(replica)
        finally:
            if due:  # there are very many, or one has failed
                self._soon = due | self._soon
                if not self._is_going:
                    self._go_when_turn_ends()

    def _count_crowd(self) -> None:
        count = len(self._crowd)
        soon_ms = CROWDED_MS if count > MANY_QUEUES else SOON_MS if count > FEW_QUEUES else 0
        self._soon_ms = max(self._soon_ms, soon_ms)
        if self._gathered_ms - self._crowd_began_ms >= LATELY_MS:
            self._soon_ms = soon_ms
            self._crowd.clear()
            self._crowd_began_ms = self._gathered_ms

    def _flush(self, replica: Replica) -> None:
        self._crowd.add(id(replica))
        self._later.pop(replica, None)
        self._older.pop(replica, None)
        replica.flush()
        master = replica.master
        if master is not None and not master.under_way.is_clear:
            self._busy[master] = None
