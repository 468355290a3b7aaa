"""Batches that have gone out and are not with every mirror of the in-sync set yet.

They wait in memory, so publishers are charged for them: until the in-sync set has them, and the
ring, which brings them to all the others, has room for more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from warren.flow.credit import Credit
from warren.flow.states import Stage
from warren.replication.classic.batch import Batch

UNDER_WAY_BYTES_MAX: Final = 16_777_216
"""Of messages on their way to mirrors: beyond it publishers wait."""
NOTHING_HELD: Final = -1
EVERYTHING: Final = 2**63 - 1
"""What mirrors in sync hold where there are none."""


class UnderWay:
    def __init__(self) -> None:
        self.credit = Credit(UNDER_WAY_BYTES_MAX, Stage.QUEUE)
        self.in_sync: frozenset[str] = frozenset()
        """The mirrors of the committed in-sync set."""
        self._members: tuple[str, ...] = ()
        """The same, to be looked through."""
        self.held_by: dict[str, int] = {}
        """The last broadcast that each mirror holds, on disk if need be."""
        self._batches: deque[Batch] = deque()
        self._owed_bytes = 0
        """Charged for what mirrors in sync have, while the ring has no room."""
        self._has_room = True
        self._is_closed = False

    @property
    def is_clear(self) -> bool:
        """Whether there is nothing that mirrors in sync have yet to get."""
        return not self._batches

    def held_everywhere(self) -> int | None:
        """The last broadcast that all mirrors in sync hold; None if there are no such mirrors."""
        least = self._least_held()
        return None if least == EVERYTHING else least

    def _least_held(self) -> int:
        least = EVERYTHING
        for member in self._members:
            number = self.held_by.get(member, NOTHING_HELD)
            least = min(least, number)
        return least

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._settle()

    def held(self, member: str, number: int) -> bool:
        """A mirror has everything up to this broadcast; whether that is news."""
        if number <= self.held_by.get(member, NOTHING_HELD):
            return False
        self.held_by[member] = number
        if self._batches:
            oldest = self._batches[0]
            if number >= oldest.number:
                self._settle()
        return True

    def set_in_sync(self, members: Iterable[str]) -> None:
        self.in_sync = frozenset(members)
        self._members = tuple(self.in_sync)
        self._settle()

    def room_changed(self, has_room: bool) -> None:
        self._has_room = has_room
        if has_room:
            self._pay_back()

    def close(self) -> None:
        """Nobody is charged any more."""
        self._is_closed = True
        self.credit.release(self.credit.bytes_used)

    def _settle(self) -> None:
        batches = self._batches
        if not batches:
            return
        everywhere = self._least_held()
        while batches:
            batch = batches[0]
            if batch.number > everywhere:
                break
            batches.popleft()
            self._owed_bytes += batch.size
            batch.held_everywhere()
        if self._has_room:
            self._pay_back()

    def _pay_back(self) -> None:
        owed, self._owed_bytes = self._owed_bytes, 0
        if owed and not self._is_closed:
            self.credit.release(owed)
