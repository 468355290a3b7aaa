"""Who is held up, and since when: looked at regularly, told when it changes.

A connection that one of the credits holds shows `flow`, as do its channel and perhaps the queue:
see `flow/states.py`. That leaves the first stage, channels: they are as fast as the processor, and
when that is not fast enough nothing is exhausted, the loop just never sleeps. What can be seen is
that clients are ahead of it: what they have sent waits in the system's buffers. A client that
sends much at once is ahead, too, for a moment, and others wait a little whenever the loop is
busy; therefore

    busy for most of the time since the last look, and now more bytes wait than a request has

is what `flow` means for a connection that nothing else holds.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from warren.flow.states import MEMORY_MS, RUNNING

BUSY_SHARE_MIN: Final = 0.8
BACKLOG_BYTES_MIN: Final = 16_384

Thing = TypeVar("Thing")


class Turn(NamedTuple):
    """A thing's state is not what it was; `duration_ms` is how long it had been that."""

    state: str
    before: str
    duration_ms: int


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


class Backlogs(Generic[Thing]):
    """Which connections send more than the loop gets round to, now or lately."""

    def __init__(self) -> None:
        self._before: dict[Thing, int] = {}
        self._seen: dict[Thing, int] = {}

    def is_behind(self, thing: Thing, backlog_bytes: int, now_ms: int) -> bool:
        """As `StateWatch.look`; the backlog is that of a busy loop, or 0."""
        at_ms = now_ms if backlog_bytes >= BACKLOG_BYTES_MIN else self._before.get(thing)
        if at_ms is None or now_ms - at_ms >= MEMORY_MS:
            return False
        self._seen[thing] = at_ms
        return True

    def end(self) -> None:
        self._before, self._seen = self._seen, {}
