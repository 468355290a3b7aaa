"""Reading all segments, because there is no checkpoint to be believed. Blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warren.storage.disk.files import Disk, read_file
from warren.storage.disk.layout import SEGMENT_SUFFIX, IndexLayout, decode_name, numbered
from warren.storage.index.checkpoint import QueueState
from warren.storage.index.index_format import (
    ACK,
    FILE_HEADER_BYTES,
    PUBLISH,
    QUEUE,
    SEGMENT_MAGIC,
    STORED,
    TRANSIENT,
    DamagedHeader,
    NewerFormat,
    parse_file_header,
)
from warren.storage.index.index_records import Record, scan
from warren.storage.index.recovering import Findings, RecoveringQueue
from warren.storage.index.segment import SEGMENT_SHIFT, Segment, pieces_of, places_of


def check_segments(layout: IndexLayout, disk: Disk) -> None:
    """Raise NewerFormat if a segment is of one."""
    for directory_name in disk.list(layout.queues_directory):
        directory = layout.queues_directory / directory_name
        for number in numbered(disk.list(directory), SEGMENT_SUFFIX):
            path = directory / f"{number}{SEGMENT_SUFFIX}"
            try:
                parse_file_header(SEGMENT_MAGIC, read_file(disk, path, FILE_HEADER_BYTES))
            except DamagedHeader:
                continue
            except NewerFormat as error:
                raise NewerFormat(error.version, path) from error


@dataclass(slots=True)
class SegmentFile:
    path: Path
    number: int
    queue_id: int
    data: bytes
    records: list[Record]
    end: int


def survey_segments(
    layout: IndexLayout, disk: Disk, findings: Findings
) -> dict[int, RecoveringQueue]:
    """All queues that have segments, by number; a power cut cannot take back what was found."""
    queues: dict[int, RecoveringQueue] = {}
    disk.sync_directory(layout.queues_directory)
    findings.phase = "segments"
    names = disk.list(layout.queues_directory)
    files = {name: disk.list(layout.queues_directory / name) for name in names}
    numbers = {name: numbered(there, SEGMENT_SUFFIX) for name, there in files.items()}
    findings.segments_total = sum(map(len, numbers.values()))
    for directory_name in names:
        directory = layout.queues_directory / directory_name
        disk.sync_directory(directory)
        name: str | None = None
        unnamed: list[SegmentFile] = []
        for number in numbers[directory_name]:
            file = _read_segment(disk, directory / f"{number}{SEGMENT_SUFFIX}", number, findings)
            if file is None:
                continue
            name = name or _name_in(layout, file) or _name_beside(layout, disk, file)
            if name is None:
                unnamed.append(file)
                continue
            for known in (*unnamed, file):
                _take(queues, name, known)
            unnamed = []
        findings.problems += [f"{file.path} does not say which queue it is of" for file in unnamed]
    _bury_predecessors(queues)
    return queues


def _read_segment(disk: Disk, path: Path, number: int, findings: Findings) -> SegmentFile | None:
    data = read_file(disk, path, is_synced=True)
    try:
        salt, queue_id, _ = parse_file_header(SEGMENT_MAGIC, data)
    except DamagedHeader:
        findings.problems.append(f"{path} does not begin as a segment does")
        return None
    records, end, damage = scan(data, FILE_HEADER_BYTES, salt)
    for start, stop in damage:
        findings.damaged(str(path), start, stop)
    if end < len(data):
        findings.damaged(str(path), end, len(data))
    findings.segments_read += 1
    return SegmentFile(path, number, queue_id, data, records, end)


def _name_in(layout: IndexLayout, file: SegmentFile) -> str | None:
    for record in file.records:
        if record.kind == QUEUE:
            return _if_right(layout, file, record.payload(file.data))
    return None


def _name_beside(layout: IndexLayout, disk: Disk, file: SegmentFile) -> str | None:
    try:
        return _if_right(layout, file, read_file(disk, file.path.parent / ".queue_name"))
    except FileNotFoundError:
        return None


def _if_right(layout: IndexLayout, file: SegmentFile, encoded: bytes) -> str | None:
    """The directory's name is a hash of the queue's."""
    name = decode_name(encoded)
    return name if layout.queue_directory(name) == file.path.parent else None


def _take(queues: dict[int, RecoveringQueue], name: str, file: SegmentFile) -> None:
    queue = queues.setdefault(file.queue_id, RecoveringQueue(QueueState(file.queue_id, name)))
    segment = queue.state.segments[file.number] = Segment(file.number)
    segment.has_file = True
    segment.is_suspect = True
    segment.file_size = file.end
    acked = 0
    for record in file.records:
        if record.kind == ACK:
            for touched, places in pieces_of(record.sequence, record.sequence + record.count):
                acked |= places if touched == file.number else 0
    for record in file.records:
        if record.kind == PUBLISH and record.sequence >> SEGMENT_SHIFT == file.number:
            queue.see(record.sequence)
            _enter(queue, segment, record, acked)


def _enter(queue: RecoveringQueue, segment: Segment, record: Record, acked: int) -> None:
    place = record.sequence - segment.base
    places = places_of(record.sequence, 1)
    segment.note_order(place, place)
    segment.entries += 1
    if places & (acked | segment.live) or record.flags & TRANSIENT:
        return
    is_stored = bool(record.flags & STORED)
    sizes = (0, record.size) if is_stored else (record.size, 0)
    segment.add(places, 0, *sizes)
    if is_stored:
        segment.stored |= places
        queue.stored[record.sequence] = (record.store_file, record.store_offset)


def _bury_predecessors(queues: dict[int, RecoveringQueue]) -> None:
    """Of several queues of one name the last one made is alive."""
    newest: dict[str, int] = {}
    for queue_id, queue in queues.items():
        newest[queue.state.name] = max(queue_id, newest.get(queue.state.name, 0))
    for queue_id, queue in queues.items():
        queue.state.is_deleted = queue_id != newest[queue.state.name]
