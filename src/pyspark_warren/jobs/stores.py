"""Reads the stores of queues on a node's disk, message by message, without changing a byte of them.

The broker's own recovery reads checkpoint and journal; here it runs on a disk that refuses to be
written to. The messages that it finds alive are then read, from journal, segments and the store of
large bodies, and each becomes a hash. So the result is what the node would have after a start.

A node that runs goes on writing meanwhile. Its files are complete as of some moment, but nodes are
read at different ones: let queues rest, or stop the nodes, or read copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_warren.jobs.findings import DAMAGE, FILES, LOST, MESSAGE, QUEUE, Finding
from pyspark_warren.jobs.stream_stores import FOLDER as STREAMS
from pyspark_warren.jobs.stream_stores import stream_findings
from warren.storage.bodies.record_format import FILE_HEADER_BYTES as STORE_HEADER_BYTES
from warren.storage.bodies.record_format import (
    RECORD_HEADER_BYTES,
    TRAILER,
    RecordHeader,
    parse_file_header,
)
from warren.storage.bodies.store_files import SUFFIX
from warren.storage.bodies.store_scan import Gap, Walk
from warren.storage.disk.files import Location, RealDisk
from warren.storage.disk.layout import IndexLayout, decode_name, numbered
from warren.storage.index.completeness import FilesMissing
from warren.storage.index.index_format import FILE_HEADER_BYTES
from warren.storage.index.index_records import EntryReader
from warren.storage.index.recovery import Recovery
from warren.storage.index.segment import SEGMENT_ENTRIES, runs_of
from warren.wire.properties import MalformedProperties, decode_properties

if TYPE_CHECKING:
    from warren.storage.index.checkpoint import QueueState
    from warren.storage.index.recovering import RecoveringQueue
    from warren.storage.index.segment import Segment
    from warren.wire.codec import QueuedMessage

HASH_BYTES: Final = 16
# A node that runs may delete a file between two looks.
TRIES_MAX: Final = 5


class ReadOnlyDisk(RealDisk):
    """Disk on which nothing is opened for writing, made or synced."""

    def open(self, path: Location, *, create: bool = False) -> int:
        assert not create, "nothing is made here"
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def sync(self, descriptor: int) -> None:
        """Do nothing: there is nothing written to sync."""

    def sync_directory(self, path: Location) -> None:
        """Do nothing, as for files."""

    def make_directory(self, path: Location) -> None:
        """Do nothing: a missing directory counts as empty, a missing file is reported."""

    def list(self, path: Location) -> list[str]:
        return super().list(path) if os.path.isdir(path) else []


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    offset: int
    header: RecordHeader


class StoredBodies:
    """Store of large bodies: the place of each record, by the home that the index has of it."""

    def __init__(self, directory: Path, disk: ReadOnlyDisk) -> None:
        self._disk = disk
        self._places: dict[tuple[int, int], _Place] = {}
        self.file_bytes = 0
        self.damage: list[str] = []
        for number in numbered(disk.list(directory), SUFFIX):
            self._scan(directory / f"{number}{SUFFIX}", number)

    def seen(self, file: int, offset: int) -> bool:
        return (file, offset) in self._places

    def missed(self, file: int) -> None:
        """Do nothing: a missing body is told with its message."""

    def died(self, file: int, offset: int, size: int) -> None:
        """Do nothing: the queues know which messages are alive."""

    def payload(self, file: int, offset: int) -> tuple[bytes, bytes] | None:
        """Return route key, properties and body as they are hashed, and the properties alone."""
        place = self._places.get((file, offset))
        if place is None:
            return None
        header = place.header
        descriptor = self._disk.open(place.path)
        try:
            data = self._disk.read(descriptor, place.offset, header.record_bytes)
        finally:
            self._disk.close(descriptor)
        payload = data[RECORD_HEADER_BYTES : -len(TRAILER)]
        properties = payload[header.route_key_bytes :][: header.properties_bytes]
        return payload, properties

    def _scan(self, path: Path, number: int) -> None:
        size = self._disk.size(path)
        self.file_bytes += size
        descriptor = self._disk.open(path)
        try:
            salt = parse_file_header(self._disk.read(descriptor, 0, STORE_HEADER_BYTES), number)
            if salt is None:
                self.damage.append(f"{path.name}: does not begin as it should")
                return
            walk = Walk(self._disk, descriptor, salt, size, verified=number)
            for found in walk.records(STORE_HEADER_BYTES):
                if isinstance(found, Gap):
                    self.damage.append(f"{path.name}: bytes {found.start} to {found.end}")
                    continue
                position, header = found
                home = (header.home_file, header.home_offset)
                self._places[home] = _Place(path, position, header)
        finally:
            self._disk.close(descriptor)


def vhost_directories(data_directory: Path) -> list[Path]:
    """Return the directories of a node's virtual hosts; none if it has never kept a message."""
    parent = data_directory / "msg_stores" / "vhosts"
    return sorted(path.parent for path in parent.glob("*/.vhost")) if parent.is_dir() else []


def findings(directory: Path, *, with_ids: bool = False) -> list[Finding]:
    """Return everything in the directory of a virtual host.

    `with_ids`: the message ids of streams' records, too.

    Raises
    ------
    FilesMissing, NewerFormat, OSError
        If the files cannot be read.
    """
    for _ in range(TRIES_MAX - 1):
        try:
            return list(_findings(directory, with_ids=with_ids))
        except (FilesMissing, FileNotFoundError):
            continue
    return list(_findings(directory, with_ids=with_ids))


def _file_bytes(directory: Path) -> int:
    """Return the size of all files but those of streams, which have no garbage."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(
        path.stat().st_size for path in files if path.relative_to(directory).parts[0] != STREAMS
    )


def _findings(directory: Path, *, with_ids: bool) -> Iterator[Finding]:
    disk = ReadOnlyDisk()
    vhost = decode_name((directory / ".vhost").read_bytes())
    layout = IndexLayout(directory, vhost)
    recovery = Recovery(layout, disk)
    recovery.load()
    bodies = StoredBodies(directory / "msg_store_persistent", disk)
    recovery.replay(bodies)  # type: ignore[arg-type] # it asks only what is there
    reader = _QueueReader(layout, disk, bodies, recovery.salt or 0)
    for queue in recovery.queues.values():
        yield Finding(QUEUE, vhost, queue.state.name)
        yield from reader.messages(queue)
    for problem in [*recovery.findings.problems, *bodies.damage]:
        yield Finding(DAMAGE, vhost, text=problem)
    yield Finding(FILES, vhost, bytes=_file_bytes(directory))
    yield from stream_findings(directory, vhost, with_ids=with_ids)


@dataclass(frozen=True, slots=True)
class _QueueReader:
    layout: IndexLayout
    disk: ReadOnlyDisk
    bodies: StoredBodies
    salt: int

    def messages(self, queue: RecoveringQueue) -> Iterator[Finding]:
        state = queue.state
        for number in sorted(state.segments):
            yield from self._segment(state, state.segments[number])
        for sequence in sorted(queue.journaled):
            yield self._found(state.name, queue.journaled[sequence])
        for sequence in queue.lost:
            yield Finding(LOST, self.layout.vhost, state.name, sequence)

    def _segment(self, state: QueueState, segment: Segment) -> Iterator[Finding]:
        wanted = segment.readable
        if not wanted:
            return
        path = self.layout.segment_file(state.name, segment.number)
        data = path.read_bytes()[: segment.file_size] if path.exists() else b""
        places = wanted.to_bytes(SEGMENT_ENTRIES // 8, "little")
        reader = EntryReader(self.salt, segment.base, places)
        there = reader.read(data, FILE_HEADER_BYTES, len(data) + 1)
        for queued in there:
            yield self._found(state.name, queued)
        known = {queued.sequence for queued in there}
        for first, length in runs_of(wanted):
            for sequence in range(segment.base + first, segment.base + first + length):
                if sequence not in known:
                    yield Finding(LOST, self.layout.vhost, state.name, sequence)

    def _found(self, queue: str, queued: QueuedMessage) -> Finding:
        payload: bytes
        if queued.store_file >= 0:
            stored = self.bodies.payload(queued.store_file, queued.store_offset)
            if stored is None:
                return Finding(LOST, self.layout.vhost, queue, queued.sequence)
            payload, block = stored
        else:
            message = queued.message
            block = message.properties.raw
            payload = message.route_key + block + message.body
        return Finding(
            MESSAGE, self.layout.vhost, queue, queued.sequence, _hash(payload),
            _message_id(block), len(payload),
        )  # fmt: skip


def _hash(payload: bytes) -> str:
    return blake2b(payload, digest_size=HASH_BYTES).hexdigest()


def _message_id(block: bytes) -> str | None:
    try:
        return decode_properties(block).message_id
    except MalformedProperties:
        return None
