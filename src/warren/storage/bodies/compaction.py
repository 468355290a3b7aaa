"""Garbage collection: what is left of the emptiest files is copied into one, and they are deleted.

**The guarantee.** At every instant, also the instant of a power cut, each record that anybody may
still ask for is whole in at least one file, and it is known which to take. Nothing is ever moved in
place, and nothing is overwritten.

**The naive way** is to copy the live records, write down somewhere where they went, and delete the
old file. The trouble is "somewhere": queues know their messages by file and offset, in entries
spread over journals and segments; a list of new locations would have to be safe before the
deletion, must agree with the checkpoint it belongs to, and is lost when that is.

**What is done instead.** A record says in its header what its home is: the location under which
queues know it. A copy is the same bytes at another place, so it still says so. The list of new
locations is thus on the disk as soon as the copies are. In memory it is `Forwarding`.

    1. take an empty file, the output, whose name is safe
    2. walk each source; copy the records that have references left, checksums checked, in portions
    3. sync the output
    4. on the loop, source by source: lead the homes to the copies, count the deaths that came
       meanwhile, and forget the source
    5. when the acknowledgements that made garbage of the rest are safe too: delete the sources

A power cut before 5 leaves the sources. Then recovery takes the copies for garbage, which they are.
After 5 the sources are gone, and the copies found in a file newer than the checkpoint take over
(store_recovery.py). A checkpoint between 4 and 5 has the forwarding, and knows the output.
`references` are copied as they were and deaths are carried along: were the copy written with what
is left, a replay of the journal would subtract the same death twice.

**When.** A file is worth it when less than half of it is alive, or when it was closed early and
can be joined with others; and only if there are more than two files. So at least half of what a
compaction frees is really free, and space in use is at most twice what is alive.

Tested in tests/simulation/test_compaction_crashes.py, by cutting the power before every step.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from warren.storage.bodies.forwarding import Forwarding, Moves, Place
from warren.storage.bodies.record_format import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    CorruptRecord,
    RecordHeader,
    resalted_header,
)
from warren.storage.bodies.store_files import REFERENCE_WEIGHT, StoreDirectory, StoreFile
from warren.storage.bodies.store_scan import Gap, Walk
from warren.storage.disk.files import Buffer, Disk, append_all

SOURCES_MAX: Final = 16
PORTION_BYTES: Final = 1_048_576
"""Copied at a time; the pause between two portions is what limits the rate."""


def choose(files: Iterable[StoreFile], file_bytes: int) -> list[StoreFile]:
    """The files to compact into one, emptiest first; none if it is not worth it."""
    used = [file for file in files if file.size > FILE_HEADER_BYTES]
    if len(used) <= 2:
        return []
    candidates = [file for file in used if _is_candidate(file, file_bytes)]
    chosen: list[StoreFile] = []
    live_bytes = 0
    for file in sorted(candidates, key=lambda f: f.live_bytes):
        live_bytes += file.live_bytes
        if live_bytes > file_bytes or len(chosen) == SOURCES_MAX:
            break
        chosen.append(file)
    if len(chosen) == 1 and chosen[0].live_bytes * 2 >= chosen[0].size:
        return []
    return chosen


def _is_candidate(file: StoreFile, file_bytes: int) -> bool:
    return (
        file.is_sealed
        and not file.is_being_written
        and not file.is_unreadable
        and len(file.deaths) >= file.patience
        and file.live_bytes * 2 < max(file.size, file_bytes)
    )


class Moved(NamedTuple):
    """A record that was copied."""

    home: Place
    new_offset: int
    references: int
    body_bytes: int


@dataclass(slots=True)
class Source:
    """One file to be emptied."""

    file: StoreFile
    deaths: array[int]  # when the run began
    live: list[tuple[int, RecordHeader]] = field(default_factory=list)
    live_bytes: int = 0
    moved: dict[int, Moved] = field(default_factory=dict)  # by offset
    legacy: Legacy | None = None


class Legacy:
    """What a source leaves to the output, as of the beginning of the run.

    Worked out beside the loop, which then only has to join it and to add the deaths since.
    """

    def __init__(self, source: Source, output: StoreFile, end: int) -> None:
        self.end = end
        self.references = 0
        self.weight = 0
        self.dead_weight = 0
        self.deaths = array("I")
        self.moves = Moves()  # of the records that were at home in the source
        self.guests: list[tuple[Place, Place]] = []  # those that were not: home, new place
        deaths = Counter(source.deaths)
        for offset, moved in source.moved.items():
            dead = deaths[offset]
            weight = moved.body_bytes + REFERENCE_WEIGHT
            self.references += moved.references
            self.weight += moved.references * weight
            self.dead_weight += dead * weight
            self.deaths.extend([moved.new_offset] * dead)
            place = (output.number, moved.new_offset)
            if moved.home == (source.file.number, offset):
                self.moves.append(offset, place, moved.references - dead)
            else:
                self.guests.append((moved.home, place))


class Compaction:
    """One run. `measure`, `copy_portion` and `sync` block; the rest belongs on the loop."""

    def __init__(self, directory: StoreDirectory, files: list[StoreFile]) -> None:
        self.sources = [Source(f, f.deaths[:]) for f in files]
        self.corrupt: Final[list[CorruptRecord]] = []
        self.live_bytes = 0
        self._directory = directory

    def measure(self) -> None:
        """Find out what is really alive."""
        for source in self.sources:
            with self._opened(source.file) as walk:
                self._measure(source, walk)

    def drop_the_full(self, file_bytes: int) -> None:
        """Leave out what turned out not to be worth it, until more of it has died."""
        for source in list(self.sources):
            file = source.file
            if source.live_bytes * 2 >= max(file.size, file_bytes):
                file.patience = (len(source.deaths) + file.references + 1) // 2
                self.sources.remove(source)
        if len(self.sources) == 1:
            source = self.sources[0]
            if source.live_bytes * 2 >= source.file.size:
                source.file.patience = len(source.deaths) + 1
                self.sources.clear()
        self.live_bytes = sum(source.live_bytes for source in self.sources)

    def copy(self, output: StoreFile) -> Generator[int]:
        """Copy everything, a portion at each step; how many bytes each had."""
        position = FILE_HEADER_BYTES
        for source in self.sources:
            with self._opened(source.file) as walk:
                portion = Portion(self._directory.disk, output, position)
                for offset, header in source.live:
                    record = walk.record(offset, header)
                    if record is None:
                        self._lose(source, offset, "wrong checksum")
                        continue
                    source.moved[offset] = portion.add(header, record)
                    if portion.size >= PORTION_BYTES:
                        yield portion.append()
                yield portion.append()
            position = portion.position
            source.legacy = Legacy(source, output, position)

    def sync(self, output: StoreFile) -> None:
        if not self._directory.is_transient:
            self._directory.disk.sync(output.descriptor)

    def install(self, source: Source, output: StoreFile, forwarding: Forwarding) -> None:
        """From now on the copies count. They are safe; the source may go."""
        legacy = source.legacy
        assert legacy is not None
        output.size = legacy.end
        output.references += legacy.references
        output.weight += legacy.weight
        output.dead_weight += legacy.dead_weight
        output.deaths.extend(legacy.deaths)
        if legacy.moves.alive:
            forwarding.moves[source.file.number] = legacy.moves
        for home, place in legacy.guests:
            forwarding.relocate(home, place)
        for offset in source.file.deaths[len(source.deaths) :]:
            moved = source.moved.get(offset)
            if moved is None:
                continue  # it was damaged, and is lost
            output.bury(moved.new_offset, moved.body_bytes)
            if moved.home == (source.file.number, offset):  # a guest's home knows already
                forwarding.bury(*moved.home)

    def _measure(self, source: Source, walk: Walk) -> None:
        deaths = Counter(source.deaths)
        for item in walk.records(FILE_HEADER_BYTES):
            if isinstance(item, Gap):
                self._lose(source, item.start, f"{item.end - item.start} damaged bytes")
                continue
            offset, header = item
            if deaths[offset] < header.references:
                source.live.append(item)
                source.live_bytes += header.record_bytes

    @contextmanager
    def _opened(self, file: StoreFile) -> Iterator[Walk]:
        disk = self._directory.disk
        descriptor = disk.open(self._directory.file(file.number))
        try:
            yield Walk(disk, descriptor, file.salt, file.size)
        finally:
            disk.close(descriptor)

    def _lose(self, source: Source, offset: int, reason: str) -> None:
        self.corrupt.append(CorruptRecord(source.file.number, offset, reason))


class Portion:
    """Records on their way to the output."""

    def __init__(self, disk: Disk, output: StoreFile, position: int) -> None:
        self.position = position
        self.size = 0
        self._disk = disk
        self._output = output
        self._pieces: list[Buffer] = []

    def add(self, header: RecordHeader, record: bytes) -> Moved:
        home = (header.home_file, header.home_offset)
        new_offset = self.position + self.size
        self._pieces.append(resalted_header(record, self._output.salt))
        self._pieces.append(memoryview(record)[RECORD_HEADER_BYTES:])
        self.size += len(record)
        return Moved(home, new_offset, header.references, header.body_bytes)

    def append(self) -> int:
        size, self.size = self.size, 0
        append_all(self._disk, self._output.descriptor, self._pieces)
        self._pieces = []
        self.position += size
        return size
