"""Tenure of a node: True as long as it may act, asked at the moment of acting.

**The guarantee.** A node acts for a queue (confirms, delivers) only while its session in the
metadata store is certain to be there. Whoever takes over from a node first sees its session gone.
So no two nodes ever act for one queue at the same time, and no clocks have to agree for that.

**The naive way** is a timer: keep the session alive, and when that fails for too long, stop. It
fails in the one case it is for. A process that is stopped (SIGSTOP, a virtual machine that is
moved, a page fault on a dead disk) has its timers stopped along with it. It wakes up an hour later
in the middle of a loop, and the next thing it does is to write the confirm it had just encoded.

**So the question is asked where the bytes leave** (`server/outgoing.py`: once per write, not per
message), and it is a comparison with a clock, not with what a timer has left behind:

    sent          answered                   until     expiry
      |---keepalive--->|                       |         |      time, on this machine's clock
      |<----------------- time to live ----------------->|
                                               |<-margin>|
      acting ................................. | frozen: nothing leaves

Time runs from when the last successful keep-alive was *sent*. The store starts the time to live
anew when the request reaches it, which is later; so `until` is never after the store's own end of
the session. The margin is for what lies between looking at the clock and the bytes being gone, and
for clocks that do not run equally fast. The clock is this machine's own, goes on while the
process or the machine sleeps, and is never set: the time of day plays no part.

**Two ways to freeze.** While the loop is alive, somebody notices ahead of time that `until` is
near, writes out what is due, and freezes in good order (`freeze`). Or the process wakes up after
`until`: then `holds` itself freezes everything, before it answers no. Either way there is no
thaw by waiting: only `extend`, with a proof that the session is there (or that there is a new one).

Pure: the clock comes from outside. `tests/unit/flow/test_tenure.py` has it in small steps,
`tests/cluster/test_freeze.py` with stopped processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol


class Follower(Protocol):
    """Listener for freeze and thaw; called synchronously, in the order of `Tenure.followers`."""

    def frozen(self) -> None:
        """Stop all output, even what is encoded already."""
        ...

    def thawed(self) -> None:
        """Resume where `frozen` stopped."""
        ...


class Tenure:
    """Frozen from the beginning, unless it is for ever."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.is_frozen = True
        """The last known state; `holds` looks at the clock, too."""
        self.until_s = -math.inf
        self.followers: list[Follower] = []

    def holds(self) -> bool:
        """Return True if the node may act at this moment; if its time is up, freeze first."""
        if self.is_frozen:
            return False
        if self._now() < self.until_s:
            return True
        self.freeze()
        return False

    def extend(self, until_s: float) -> None:
        """Allow the node to act until then: it is proved that no other node does."""
        self.until_s = until_s
        if self.is_frozen and self._now() < until_s:
            self.is_frozen = False
            self._tell_thawed()

    def freeze(self) -> None:
        """Freeze before time is up, or because the session is known to be gone."""
        if self.is_frozen:
            return
        self.is_frozen = True
        for follower in tuple(self.followers):
            follower.frozen()

    def _tell_thawed(self) -> None:
        for follower in tuple(self.followers):
            if self.is_frozen:  # one of them took so long that time is up again
                return
            follower.thawed()


def unlimited() -> Tenure:
    """Return the tenure of a single node, which never ends: no other node could take over."""
    tenure = Tenure(float)  # which is always 0.0, and as quick as it gets
    tenure.extend(math.inf)
    return tenure
