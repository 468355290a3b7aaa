"""Where records went that compaction has moved.

Queues, and their entries on disk, know a message by its home: the location at which it was first
written. That never changes; when the record is copied elsewhere an entry here leads from its home
to where it is now, always in one step. The entry goes when the last reference has.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]


def pack(file: int, offset: int) -> int:
    return file << 32 | offset


def _unpack(packed: int) -> Place:
    return packed >> 32, packed & 0xFFFF_FFFF


class Forwarding:
    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._shared: dict[int, int] = {}  # references left, where that is more than one

    def __len__(self) -> int:
        return len(self._places)

    def put(self, home: Place, place: Place, references: int) -> None:
        assert references > 0
        assert home != place
        packed = pack(*home)
        self._places[packed] = pack(*place)
        if references > 1:
            self._shared[packed] = references
        else:
            self._shared.pop(packed, None)

    def merge(self, places: dict[int, int], shared: dict[int, int]) -> None:
        """Put many at once: packed places by packed home, and references where more than one."""
        self._places.update(places)
        self._shared.update(shared)

    def resolve(self, file: int, offset: int) -> Place | None:
        packed = self._places.get(pack(file, offset))
        return None if packed is None else _unpack(packed)

    def bury(self, file: int, offset: int) -> Place | None:
        """One reference has ended: where its record is, if it was moved."""
        home = pack(file, offset)
        packed = self._places.get(home)
        if packed is None:
            return None
        left = self._shared.get(home, 1) - 1
        if left > 1:
            self._shared[home] = left
        elif left == 1:
            del self._shared[home]
        else:
            del self._places[home]
        return _unpack(packed)

    def forget(self, home: Place) -> None:
        packed = pack(*home)
        self._places.pop(packed, None)
        self._shared.pop(packed, None)

    def to_arrays(self) -> list[array[int]]:
        return [
            array("Q", self._places.keys()),
            array("Q", self._places.values()),
            array("Q", self._shared.keys()),
            array("Q", self._shared.values()),
        ]

    @classmethod
    def from_arrays(cls, arrays: list[array[int]]) -> Forwarding:
        forwarding = cls()
        forwarding._places = dict(zip(arrays[0], arrays[1], strict=True))
        forwarding._shared = dict(zip(arrays[2], arrays[3], strict=True))
        return forwarding
