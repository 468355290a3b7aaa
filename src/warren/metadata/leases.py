"""The leases of an embedded store, where the holder lives in the same process as the store.

That changes what silence means. A holder that misses its time because it hangs should lose its
keys; a process that stood still (stopped, swapped out, a slow disk under the loop) has delayed the
holder's keep-alive and the store's timer alike, and nobody else has been waiting. So a timer that
comes late proves nothing and is set once more.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from warren.metadata.store import Lease, LeaseLost, MetadataUnavailable
from warren.model.clock import TimerHandle

LEASES_MAX: Final = 65_536
# A timer is late when it comes this part of the time to live after it was due.
_LATE: Final = 0.25


class Timers(Protocol):
    """What is needed of an event loop."""

    def time(self) -> float: ...

    def call_at(
        self, when: float, callback: Callable[[Lease], None], lease: Lease
    ) -> TimerHandle: ...


@dataclass(slots=True)
class _Clock:
    deadline: float
    due: float
    timer: TimerHandle


class LeaseBook:
    """Living leases; `on_expiry` is called once for each that was not kept alive."""

    def __init__(self, timers: Timers, on_expiry: Callable[[Lease], None]) -> None:
        self._timers = timers
        self._on_expiry = on_expiry
        self._clocks: dict[int, _Clock] = {}

    def grant(self, ttl_s: float) -> Lease:
        if ttl_s <= 0:
            raise ValueError("a lease lives for some time")
        if len(self._clocks) >= LEASES_MAX:
            raise MetadataUnavailable(f"there are {LEASES_MAX} leases already")
        lease = Lease(secrets.randbits(62) + 1, ttl_s)
        due = self._timers.time() + ttl_s
        self._clocks[lease.id] = _Clock(due, due, self._timers.call_at(due, self._on_due, lease))
        return lease

    def require(self, lease: Lease) -> None:
        if lease.id not in self._clocks:
            raise LeaseLost(f"lease {lease.id:x} expired or was revoked")

    def keep_alive(self, lease: Lease) -> None:
        """Moves the deadline alone: the timer looks at it when it comes."""
        self.require(lease)
        self._clocks[lease.id].deadline = self._timers.time() + lease.ttl_s

    def end(self, lease: Lease) -> bool:
        """Whether there was anything to end."""
        clock = self._clocks.pop(lease.id, None)
        if clock is not None:
            clock.timer.cancel()
        return clock is not None

    def stop(self) -> None:
        for clock in self._clocks.values():
            clock.timer.cancel()
        self._clocks.clear()

    def _on_due(self, lease: Lease) -> None:
        clock = self._clocks[lease.id]
        now = self._timers.time()
        is_late = now - clock.due > lease.ttl_s * _LATE
        if now >= clock.deadline and not is_late:
            self._on_expiry(lease)
            return
        clock.due = max(clock.deadline, now + lease.ttl_s * _LATE)
        clock.timer = self._timers.call_at(clock.due, self._on_due, lease)
