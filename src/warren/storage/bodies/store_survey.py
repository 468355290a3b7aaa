"""Looking at the files of a store when it is opened. Everything here blocks.

With the state of a checkpoint only what is newer is walked: files it does not know, and what files
have gained since. Without one, every file is. Bodies are not read, but for the newest, where a
power cut may have left records whose header reached the disk and whose body did not. Copies made by
compaction need no such look: while they are not safe, nobody needs them.

A file that the checkpoint neither lists nor could not know had been deleted; a power cut may bring
its name back, and it is deleted again.

Nothing is changed by looking: what is to be deleted and cut is noted, and done by `tidy` when it is
clear that the node will start with these files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from warren.storage.bodies.forwarding import Forwarding, Place
from warren.storage.bodies.record_format import (
    FILE_HEADER_BYTES,
    NewerStoreFormat,
    RecordHeader,
    parse_file_header,
)
from warren.storage.bodies.store_files import StoreDirectory, StoreFile
from warren.storage.bodies.store_scan import Gap, Walk
from warren.storage.bodies.store_state import StoreState

VERIFIED_BYTES: Final = 64 * 1_048_576
"""How much of what is newest is read in full."""


class Newcomers:
    """The records that a walk has found in one file; twelve bytes of memory each."""

    def __init__(self, file: StoreFile) -> None:
        self.file = file
        self.start = file.size
        self.offsets = array("I")
        self.references = array("I")
        self.body_bytes = array("I")
        self.live = array("I")
        self.homes: dict[int, Place] = {}  # by index, where it is not the record's own place

    def add(self, offset: int, header: RecordHeader) -> None:
        home = (header.home_file, header.home_offset)
        if home != (self.file.number, offset):
            self.homes[len(self.offsets)] = home
        self.offsets.append(offset)
        self.references.append(header.references)
        self.body_bytes.append(header.body_bytes)
        self.live.append(0)

    def find(self, offset: int) -> int:
        """The index of the record there, or -1."""
        index = bisect_left(self.offsets, offset)
        return index if index < len(self.offsets) and self.offsets[index] == offset else -1


@dataclass(slots=True)
class Survey:
    files: dict[int, StoreFile] = field(default_factory=dict)
    newcomers: dict[int, Newcomers] = field(default_factory=dict)
    missing: dict[int, StoreFile] = field(default_factory=dict)
    forwarding: Forwarding = field(default_factory=Forwarding)
    next_number: int = 0
    current: int = -1  # the file that was appended to at the checkpoint
    corrupt: int = 0
    problems: list[str] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    torn: list[StoreFile] = field(default_factory=list)


def survey_transient(directory: StoreDirectory) -> Survey:
    """Begin with nothing, as a store does whose records need not outlive the process."""
    directory.make()
    return Survey(next_number=directory.first_number, stale=directory.numbers())


def tidy(directory: StoreDirectory, found: Survey) -> None:
    """Delete what should not be there, and cut off what was not written to its end."""
    for number in found.stale:
        directory.disk.unlink(directory.file(number))
    for file in found.torn:
        directory.cut(file.number, file.size)


def survey(directory: StoreDirectory, state: StoreState | None) -> Survey:
    directory.make()
    found = Survey()
    numbers = directory.numbers()
    for number in numbers:
        _salt(directory, number)  # raises NewerStoreFormat
    if state is not None:
        found.forwarding = state.forwarding
        found.next_number = state.next_number
        found.current = state.current
        found.missing = {n: f for n, f in state.files.items() if n not in set(numbers)}
    budget = VERIFIED_BYTES
    for number in reversed(numbers):
        known = state.files.get(number) if state is not None else None
        if known is None and number < found.next_number:
            found.stale.append(number)
            continue
        file = found.files[number] = known or StoreFile(number)
        file.is_sealed = True
        budget -= _look(directory, file, found, budget > 0)
    found.next_number = max(found.next_number, *(n + 1 for n in numbers), 0)
    return found


def _salt(directory: StoreDirectory, number: int) -> int | None:
    path = directory.file(number)
    descriptor = directory.disk.open(path)
    try:
        header = directory.disk.read(descriptor, 0, FILE_HEADER_BYTES)
    finally:
        directory.disk.close(descriptor)
    try:
        return parse_file_header(header, number)
    except NewerStoreFormat as error:
        raise NewerStoreFormat(f"{path} is {error}") from error


def _look(directory: StoreDirectory, file: StoreFile, found: Survey, verifies: bool) -> int:
    """Walk what the checkpoint did not know of a file: how many bytes had to be read."""
    number = file.number
    size = directory.disk.size(directory.file(number))
    if size < file.size:
        if file.references:
            found.problems.append(f"{number}.rdq has {size} bytes, of {file.size} written")
        file.size = max(size, FILE_HEADER_BYTES)
    if size <= file.size:
        return 0
    if file.size == FILE_HEADER_BYTES:
        salt = _salt(directory, number)
        if salt is None:
            found.problems.append(f"{number}.rdq does not begin as a file of a message store")
        file.salt = salt or 0
    newcomers = found.newcomers[number] = Newcomers(file)
    descriptor = directory.disk.open(directory.file(number))
    try:
        verified = number if verifies else -1
        _walk(Walk(directory.disk, descriptor, file.salt, size, verified), newcomers, found)
        directory.disk.sync(descriptor)  # what was read may so far be in the page cache only
    finally:
        directory.disk.close(descriptor)
    if file.size < size:
        found.torn.append(file)
    return 0 if newcomers.homes else size - newcomers.start


def _walk(walk: Walk, newcomers: Newcomers, found: Survey) -> None:
    """Leaves the file's size at the end of the last record; a gap before it is damage."""
    file = newcomers.file
    gaps: list[Gap] = []
    for item in walk.records(file.size):
        if isinstance(item, Gap):
            gaps.append(item)
            continue
        offset, header = item
        newcomers.add(offset, header)
        file.size = offset + header.record_bytes
    for gap in gaps:
        if gap.end <= file.size:
            found.corrupt += 1
            found.problems.append(
                f"{file.number}.rdq, offset {gap.start}: {gap.end - gap.start} damaged bytes"
            )
