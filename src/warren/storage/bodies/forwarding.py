"""Where records went that compaction has moved.

Queues, and their entries on disk, know a message by its home: the location at which it was first
written. That never changes; when the record is copied elsewhere an entry here leads from its home
to where it is now, always in one step. The entry goes when the last reference has.

There may be as many entries as live messages, so they are kept by home file in arrays, sixteen
bytes each. A file is compacted as a whole, hence an array of its moved records is made once and in
order, and later moves only change where they lead. Checkpoints take the arrays as they are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]


class Moves:
    """The records of one home file, in the order of their offsets."""

    def __init__(self) -> None:
        self.offsets = array("I")
        self.files = array("I")
        self.new_offsets = array("I")
        self.left = array("I")  # references; 0 where the entry is void
        self.alive = 0

    def append(self, offset: int, place: Place, references: int) -> None:
        assert references > 0
        assert not self.offsets or offset > self.offsets[-1]
        self._insert(len(self.offsets), offset, place, references)

    def put(self, offset: int, place: Place, references: int) -> None:
        assert references > 0
        index = self._index(offset)
        if index < 0:
            self._insert(bisect_left(self.offsets, offset), offset, place, references)
            return
        self.alive += not self.left[index]
        self.files[index], self.new_offsets[index] = place
        self.left[index] = references

    def find(self, offset: int) -> int:
        """The index of the entry, or -1."""
        index = self._index(offset)
        return index if index >= 0 and self.left[index] else -1

    def arrays(self) -> tuple[array[int], ...]:
        return self.offsets, self.files, self.new_offsets, self.left

    @classmethod
    def of_arrays(cls, arrays: list[array[int]]) -> Moves:
        moves = cls()
        moves.offsets, moves.files, moves.new_offsets, moves.left = arrays
        moves.alive = sum(1 for left in moves.left if left)
        return moves

    def _index(self, offset: int) -> int:
        index = bisect_left(self.offsets, offset)
        return index if index < len(self.offsets) and self.offsets[index] == offset else -1

    def _insert(self, index: int, offset: int, place: Place, references: int) -> None:
        self.offsets.insert(index, offset)
        self.files.insert(index, place[0])
        self.new_offsets.insert(index, place[1])
        self.left.insert(index, references)
        self.alive += 1


class Forwarding:
    def __init__(self) -> None:
        self.moves: dict[int, Moves] = {}  # by home file

    def __len__(self) -> int:
        return sum(moves.alive for moves in self.moves.values())

    def resolve(self, file: int, offset: int) -> Place | None:
        moves = self.moves.get(file)
        index = -1 if moves is None else moves.find(offset)
        if moves is None or index < 0:
            return None
        return moves.files[index], moves.new_offsets[index]

    def bury(self, file: int, offset: int) -> Place | None:
        """One reference has ended: where its record is, if it was moved."""
        moves = self.moves.get(file)
        index = -1 if moves is None else moves.find(offset)
        if moves is None or index < 0:
            return None
        moves.left[index] -= 1
        if not moves.left[index]:
            self._void(file, moves)
        return moves.files[index], moves.new_offsets[index]

    def put(self, home: Place, place: Place, references: int) -> None:
        assert home != place
        self.moves.setdefault(home[0], Moves()).put(home[1], place, references)

    def relocate(self, home: Place, place: Place) -> None:
        """It was moved once more, if anybody still wants it."""
        moves = self.moves.get(home[0])
        index = -1 if moves is None else moves.find(home[1])
        if moves is not None and index >= 0:
            moves.files[index], moves.new_offsets[index] = place

    def forget(self, home: Place) -> None:
        moves = self.moves.get(home[0])
        index = -1 if moves is None else moves.find(home[1])
        if moves is not None and index >= 0:
            moves.left[index] = 0
            self._void(home[0], moves)

    def _void(self, file: int, moves: Moves) -> None:
        moves.alive -= 1
        if not moves.alive:
            del self.moves[file]
