"""Which files a store has, which one it appends to, and which are of no use any more.

    spare ──► current ──► sealed ──► dead ──► doomed ──► deleted
      └────► output of compaction ──┘  (its last reference ended)
                                       └ waits for the acks to be safe   └ waits for its users

Files are made ahead of need, because making one so that its name survives a power cut takes a sync
that nobody should wait for. If none is ready, the current file grows beyond its size for a while.

Numbers are never used twice, not even after a crash, so a location that was written down somewhere
and never came true cannot become true later with another message in it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from warren.storage.bodies.forwarding import Forwarding, Place
from warren.storage.bodies.store_files import StoreFile
from warren.storage.bodies.store_state import encode_state

PATIENCE_FILES: Final = 8
"""A file grows to at most so many times its size while no successor is ready."""


class FileTable:
    def __init__(self, is_transient: bool) -> None:
        self.is_transient = is_transient
        self.files: dict[int, StoreFile] = {}
        self.forwarding = Forwarding()
        self.current: StoreFile | None = None
        self.spares: deque[StoreFile] = deque()
        self.in_making: dict[int, StoreFile] = {}
        self.next_number = 0
        self.dead: list[StoreFile] = []
        self.dying: list[StoreFile] = []  # dead, and the acks are in the batch in flight
        self.doomed: list[StoreFile] = []
        self.wants_compaction = False
        self._has_fresh_deaths = False
        self._has_flying_deaths = False

    def new_number(self) -> int:
        number = self.next_number
        self.next_number += 1
        return number

    def advance(self, file: StoreFile) -> None:
        """Append to this one from now on."""
        if self.current is not None:
            self.seal(self.current)
        assert file.number not in self.files
        self.files[file.number] = file
        self.current = file

    def seal(self, file: StoreFile) -> None:
        assert not file.is_sealed
        file.is_sealed = True
        if file is self.current:
            self.current = None
        self.wants_compaction = True
        if file.is_dead:
            self.die(file)

    def resolve(self, file: int, offset: int) -> Place | None:
        """Where the record is that queues know by this location."""
        place = (file, offset) if file in self.files else self.forwarding.resolve(file, offset)
        return place if place is not None and place[0] in self.files else None

    def bury(self, number: int, offset: int, size: int) -> None:
        """One reference to the record has ended."""
        file = self.files.get(number)
        if file is None:
            place = self.forwarding.bury(number, offset)
            file = None if place is None else self.files.get(place[0])
            if place is None or file is None:
                return  # its file is lost; that was reported when it was found out
            offset = place[1]
        file.bury(offset, size)
        self._has_fresh_deaths = True
        if not file.is_sealed:
            return
        if file.is_dead:
            self.die(file)
        elif file.is_suspect:
            self.wants_compaction |= len(file.deaths) == file.patience
        elif file.dead_weight * 2 >= file.weight:
            file.is_suspect = True
            self.wants_compaction = True

    def die(self, file: StoreFile) -> None:
        """Its last reference has ended."""
        assert file.is_dead
        del self.files[file.number]
        if self.is_transient:
            self.doomed.append(file)
        else:
            self.dead.append(file)

    def retire(self, file: StoreFile) -> None:
        """Compaction has copied what is alive in it."""
        del self.files[file.number]
        if self._has_fresh_deaths or self._has_flying_deaths:
            self.dead.append(file)
        else:
            self.doomed.append(file)

    def discard(self, file: StoreFile) -> None:
        """Nobody ever referred to it."""
        self.files.pop(file.number, None)
        self.doomed.append(file)

    def batch_taken(self) -> None:
        assert not self.dying, "one batch at a time"
        self.dying, self.dead = self.dead, []
        self._has_flying_deaths, self._has_fresh_deaths = self._has_fresh_deaths, False

    def batch_done(self, is_safe: bool) -> None:
        if is_safe:
            self.doomed += self.dying
        else:
            self.dead = self.dying + self.dead
            self._has_fresh_deaths |= self._has_flying_deaths
        self.dying = []
        self._has_flying_deaths = False

    def to_state(self) -> bytes:
        listed = [*self.files.values(), *self.spares, *self.in_making.values()]
        current = -1 if self.current is None else self.current.number
        return encode_state(self.next_number, current, listed, self.forwarding)
