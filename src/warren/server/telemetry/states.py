"""Who is held up, and since when: looked at regularly, told when it changes.

A connection that one of the credits holds shows `flow`, as do its channel and perhaps the queue:
see `flow/states.py`. That leaves the first stage, channels: they are as fast as the processor, and
when that is not fast enough nothing is exhausted, the loop just never sleeps. What can be seen is
that clients are ahead of it: bytes wait in a socket's buffer, so reads find as much as a turn takes
(`Reading.full_reads`). A client that sends much at once is ahead, too, for a moment; therefore

    busy for most of the time since the last look, and most of what was read came in full reads

is what `flow` means for a connection that nothing else holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from warren.flow.states import MEMORY_MS, RUNNING

BUSY_SHARE_MIN: Final = 0.8
FULL_SHARE_MIN: Final = 0.5

Thing = TypeVar("Thing")


class Turn(NamedTuple):
    """A thing's state is not what it was; `duration_ms` is how long it had been that."""

    state: str
    before: str
    duration_ms: int


class Reads(NamedTuple):
    """Of a connection, ever: how many filled the buffer, and how many bytes came."""

    full: int
    octets: int


class StateWatch(Generic[Thing]):
    """Of all things of a kind; those that run are not remembered."""

    def __init__(self) -> None:
        self._held: dict[Thing, tuple[str, int]] = {}
        self._seen: dict[Thing, tuple[str, int]] = {}

    def look(self, thing: Thing, state: str, now_ms: int) -> Turn | None:
        """To be called for each that is there, running or not, and then `end`."""
        before, since_ms = self._held.get(thing, (RUNNING, now_ms))
        if state != before:
            since_ms, turned = now_ms, Turn(state, before, now_ms - since_ms)
        else:
            turned = None
        if state != RUNNING:
            self._seen[thing] = state, since_ms
        return turned

    def end(self) -> None:
        """Whatever was not looked at is gone."""
        self._held, self._seen = self._seen, {}

    def state_of(self, thing: Thing) -> str:
        return self._held.get(thing, (RUNNING, 0))[0]

    def count(self, *states: str) -> int:
        return sum([state in states for state, _ in self._held.values()])

    def clear(self) -> None:
        self._held, self._seen = {}, {}


@dataclass(slots=True)
class _Intake:
    """What had been read from a connection at the last look, and when it was behind last."""

    full_reads: int
    octets: int
    behind_at_ms: int | None


class Backlogs(Generic[Thing]):
    """Which connections send more than the loop gets round to, now or lately."""

    def __init__(self, buffer_bytes: int) -> None:
        self._buffer_bytes = buffer_bytes
        self._before: dict[Thing, _Intake] = {}
        self._seen: dict[Thing, _Intake] = {}

    def is_behind(self, thing: Thing, reads: Reads, busy: float, now_ms: int) -> bool:
        """As `StateWatch.look`. One that was never read in full is not remembered."""
        if not reads.full:
            return False
        before = self._before.get(thing)
        seen = self._seen[thing] = _Intake(reads.full, reads.octets, None)
        if before is None:
            return False
        full, octets = reads.full - before.full_reads, reads.octets - before.octets
        is_mostly_full = full * self._buffer_bytes >= FULL_SHARE_MIN * octets
        if busy >= BUSY_SHARE_MIN and full and is_mostly_full:
            seen.behind_at_ms = now_ms
            return True
        seen.behind_at_ms = before.behind_at_ms
        return seen.behind_at_ms is not None and now_ms - seen.behind_at_ms < MEMORY_MS

    def end(self) -> None:
        self._before, self._seen = self._seen, {}
