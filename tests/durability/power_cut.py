"""What a power cut leaves of a data directory, worked out from the tape of disk_faults.c.

SIGKILL takes a process away but not what it wrote: the kernel still writes that. So killing alone
cannot show whether a confirm waited for the disk. A power cut also takes what was written and not
synced, and so does a failed sync: the kernel drops such pages and a later sync of the same file
says that all is well. Both are played here, after a kill and before the next start:

- A range that was written and not synced afterwards, or whose sync failed, may be lost: the file
  ends before it, or somewhere in it, or some of its pages are zero.
- What happened to names since their directory was synced may not have happened: a new file is
  missing, a removed one is back, a renamed one has its old name and what it replaced is there.

Only files that are written at their end are treated so, since what an overwritten range held
before is not on the tape.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096
# Files of the reference broker that are written in place.
OVERWRITTEN: Final = (".dets", ".dot", ".ets")
LOSS_CHANCE: Final = 0.7


@dataclass
class FileState:
    """What the disk is not sure to hold of a file."""

    is_entry_safe: bool = True
    dirty: list[tuple[int, int]] = field(default_factory=list)
    in_sync: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)

    def begin_sync(self) -> None:
        """What is written from here on is not covered by this sync."""
        self.in_sync += self.dirty
        self.dirty = []

    def end_sync(self, is_good: bool) -> None:
        if not is_good:
            self.lost += self.in_sync
        self.in_sync = []

    def cut(self, size: int) -> None:
        for ranges in (self.dirty, self.in_sync, self.lost):
            ranges[:] = [(start, min(end, size)) for start, end in ranges if start < size]

    @property
    def unsafe(self) -> list[tuple[int, int]]:
        return sorted(self.dirty + self.in_sync + self.lost)


class Renamed(NamedTuple):
    """How to undo it: the old name, and what had the new one before."""

    source: str
    replaced: str


class Tape:
    """Played from the start of a data directory's life, through all its processes.

    Without `loses_names` all that was done to names is safe at once, as it is, mostly, on the file
    systems in common use; the reference broker relies on that.
    """

    def __init__(self, part: str, loses_names: bool = True) -> None:
        self._part = part
        self._loses_names = loses_names
        self._offset = 0
        self.files: dict[str, FileState] = {}
        self.removed: dict[str, str] = {}
        self.renamed: dict[str, Renamed] = {}

    def play(self, path: Path) -> None:
        """What was recorded since the last time."""
        with path.open("rb") as tape:
            tape.seek(self._offset)
            lines = tape.readlines()
        self._offset += sum(map(len, lines))
        for line in lines:
            self._step(line[:1].decode(), line[2:-1].decode())

    def _state(self, path: str) -> FileState:
        return self.files.setdefault(path, FileState())

    def _step(self, kind: str, rest: str) -> None:
        if self._part not in rest or rest.endswith(OVERWRITTEN):
            return
        if kind == "w":
            start, size, path = rest.split(" ", 2)
            self._state(path).dirty.append((int(start), int(start) + int(size)))
        elif kind == "t":
            size, path = rest.split(" ", 1)
            self._state(path).cut(int(size))
        elif kind == "b":
            self._state(rest).begin_sync()
        elif kind in "ef":
            self._state(rest).end_sync(kind == "e")
            if kind == "e":
                self._directory_synced(rest)
        else:
            self._name(kind, rest)

    def _directory_synced(self, directory: str) -> None:
        for path, state in self.files.items():
            if os.path.dirname(path) == directory:
                state.is_entry_safe = True
        for path in [*self.removed, *self.renamed]:
            if os.path.dirname(path) == directory:
                self.removed.pop(path, None)
                self.renamed.pop(path, None)

    def _name(self, kind: str, rest: str) -> None:
        if kind == "c":
            self.files[rest] = FileState(is_entry_safe=not self._loses_names)
            self.removed.pop(rest, None)
            return
        old, *others = rest.split("\t")
        state = self.files.pop(old, FileState())
        was_renamed = self.renamed.pop(old, None)
        if kind == "r":
            new, kept = others
            if self._loses_names:
                # If its old name was not safe either, it is gone without its new one.
                self.renamed[new] = Renamed(old if state.is_entry_safe else "", kept)
            state.is_entry_safe = True
            self.files[new] = state
        elif self._loses_names and state.is_entry_safe and not was_renamed and others != ["-"]:
            self.removed[old] = others[0]

    def forget(self) -> None:
        """The disk holds what is there now: nothing else is left to be lost."""
        self.files.clear()
        self.removed.clear()
        self.renamed.clear()


def cut_power(tape: Tape, chance: random.Random) -> list[str]:
    """Take away what may be lost, by dice; says what was done."""
    done = []
    for path, kept in sorted(tape.removed.items()):
        if chance.random() < LOSS_CHANCE and not os.path.exists(path):
            _bring_back(kept, path)
            done.append(f"{path} is back")
    for path, renamed in sorted(tape.renamed.items()):
        if chance.random() < LOSS_CHANCE and os.path.exists(path):
            done.append(f"{path} is {renamed.source or 'nothing'} again")
            state = tape.files.pop(path)
            if renamed.source:
                os.rename(path, renamed.source)
                tape.files[renamed.source] = state
            else:
                os.unlink(path)
            if renamed.replaced != "-":
                _bring_back(renamed.replaced, path)
    for path, state in sorted(tape.files.items()):
        if os.path.isfile(path):
            done += [f"{path} {damage}" for damage in _lose(path, state, chance)]
    tape.forget()
    return done


def _bring_back(kept: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copyfile(kept, path)


def _lose(path: str, state: FileState, chance: random.Random) -> list[str]:
    if not state.is_entry_safe and chance.random() < LOSS_CHANCE:
        os.unlink(path)
        return ["is missing"]
    size = os.path.getsize(path)
    ranges = [(start, min(end, size)) for start, end in state.unsafe if start < size]
    if not ranges:
        return []
    if state.lost:
        _zero(path, state.lost)  # dropped by the kernel: not a matter of dice
    first = _start_of_unsafe_tail(ranges, size)
    way = chance.choice(["end before", "end within", "holes"])
    if way == "holes" or first == size:
        holes = [page for page in _pages(ranges) if chance.random() < LOSS_CHANCE]
        _zero(path, holes)
        return [f"has {len(holes)} pages lost"]
    end = first if way == "end before" else chance.randint(first, size)
    os.truncate(path, end)
    return [f"ends at {end} of {size}"]


def _start_of_unsafe_tail(ranges: list[tuple[int, int]], size: int) -> int:
    """From here to the end nothing is safe; the size of the file if its end is."""
    start = size
    for begin, end in sorted(ranges, key=lambda one: one[1], reverse=True):
        if end < start:
            break
        start = min(start, begin)
    return start


def _pages(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pieces of the ranges that lie in one page each."""
    pages: list[tuple[int, int]] = []
    for start, end in ranges:
        edges = range((start // PAGE_BYTES + 1) * PAGE_BYTES, end, PAGE_BYTES)
        pages += pairwise([start, *edges, end])
    return pages


def _zero(path: str, ranges: list[tuple[int, int]]) -> None:
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for start, end in ranges:
            if start < size:
                file.seek(start)
                file.write(bytes(min(end, size) - start))
