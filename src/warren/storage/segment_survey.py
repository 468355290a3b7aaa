"""Reading all segments, because there is no checkpoint to be believed. Blocks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from warren.storage.checkpoint import QueueState
from warren.storage.disk import Disk
from warren.storage.index_format import (
    ACK,
    FILE_HEADER_BYTES,
    PUBLISH,
    SEGMENT_MAGIC,
    STORED,
    TRANSIENT,
    DamagedHeader,
    parse_file_header,
)
from warren.storage.index_records import Record, scan
from warren.storage.layout import SEGMENT_SUFFIX, IndexLayout, decode_name, numbered
from warren.storage.recovering import Findings, RecoveringQueue
from warren.storage.segment import SEGMENT_SHIFT, Segment, pieces_of, places_of


def check_segments(layout: IndexLayout, disk: Disk) -> None:
    """Raise NewerFormat if a segment is of one."""
    for directory_name in disk.list(layout.queues_directory):
        directory = layout.queues_directory / directory_name
        for number in numbered(disk.list(directory), SEGMENT_SUFFIX):
            descriptor = disk.open(directory / f"{number}{SEGMENT_SUFFIX}")
            try:
                header = disk.read(descriptor, 0, FILE_HEADER_BYTES)
            finally:
                disk.close(descriptor)
            with suppress(DamagedHeader):
                parse_file_header(SEGMENT_MAGIC, header)


def read_file(disk: Disk, path: Path) -> bytes:
    descriptor = disk.open(path)
    try:
        return disk.read(descriptor, 0, disk.size(path))
    finally:
        disk.close(descriptor)


def survey_segments(
    layout: IndexLayout, disk: Disk, findings: Findings
) -> dict[int, RecoveringQueue]:
    """All queues that have segments, by number."""
    queues: dict[int, RecoveringQueue] = {}
    for directory_name in disk.list(layout.queues_directory):
        directory = layout.queues_directory / directory_name
        try:
            name = decode_name(read_file(disk, directory / ".queue_name"))
        except OSError:
            findings.problems.append(f"{directory} does not say which queue it is of")
            continue
        for number in numbered(disk.list(directory), SEGMENT_SUFFIX):
            path = directory / f"{number}{SEGMENT_SUFFIX}"
            data = read_file(disk, path)
            try:
                salt, queue_id, _ = parse_file_header(SEGMENT_MAGIC, data)
            except DamagedHeader:
                findings.problems.append(f"{path} does not begin as a segment does")
                continue
            queue = queues.setdefault(queue_id, RecoveringQueue(QueueState(queue_id, name)))
            _read_segment(queue, number, data, salt, findings)
            findings.segments_read += 1
    _bury_predecessors(queues)
    return queues


def _read_segment(
    queue: RecoveringQueue, number: int, data: bytes, salt: int, findings: Findings
) -> None:
    segment = queue.state.segments[number] = Segment(number)
    segment.has_file = True
    segment.is_suspect = True
    records, end, damage = scan(data, FILE_HEADER_BYTES, salt)
    segment.file_size = end
    for start, stop in (*damage, *([(end, len(data))] if end < len(data) else [])):
        findings.damaged_stretches += 1
        findings.damaged_bytes += stop - start
        findings.problems.append(
            f"queue '{queue.state.name}', segment {number}: bytes {start} to {stop} are damaged"
        )
    acked = 0
    for record in records:
        if record.kind == ACK:
            for touched, places in pieces_of(record.sequence, record.sequence + record.count):
                acked |= places if touched == number else 0
    for record in records:
        if record.kind == PUBLISH and record.sequence >> SEGMENT_SHIFT == number:
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
