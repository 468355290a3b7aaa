"""Fuzz targets: whole files of the data directory, as a broken disk may leave them.

Checksums are made right (`seals`), since random bytes would never get behind them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fuzz.found import Found
from fuzz.memory_disk import MemoryDisk
from fuzz.seals import seal_checkpoint, seal_store_file, seal_stream, seal_sums
from warren.storage.bodies.record_format import FILE_HEADER_BYTES, NewerStoreFormat
from warren.storage.bodies.record_format import parse_file_header as parse_store_header
from warren.storage.bodies.store_scan import Gap, Walk
from warren.storage.bodies.store_state import UnreadableState, decode_state
from warren.storage.index.checkpoint import DamagedCheckpoint, decode_checkpoint
from warren.storage.index.index_format import (
    JOURNAL_MAGIC,
    SEGMENT_MAGIC,
    DamagedHeader,
    NewerFormat,
    parse_file_header,
)
from warren.streams.segments import SegmentFiles, recover_segments

SALT: Final = 7
STORE_FILE: Final = 3
STREAM_BASE: Final = 5


def checkpoint(data: bytes) -> None:
    """A checkpoint of the index, the message store's part of it, and headers of its files."""
    try:
        found, queues = decode_checkpoint(seal_checkpoint(data))
    except (DamagedCheckpoint, NewerFormat):
        return
    if sum(len(queue.segments) for queue in queues) > len(data):
        raise Found("more segments than there were bytes")
    for state in (found.store_state, seal_sums(data)):
        try:
            decode_state(state)
        except UnreadableState:
            continue


def file_header(data: bytes) -> None:
    """The header of a journal, of a segment of the index, and of a file of the message store."""
    sealed = seal_sums(data[: FILE_HEADER_BYTES - 4])
    for magic in (JOURNAL_MAGIC, SEGMENT_MAGIC):
        for octets in (data, magic + data, seal_sums(magic + data[:16])):
            try:
                parse_file_header(magic, octets)
            except (DamagedHeader, NewerFormat):
                continue
    for octets in (data, sealed):
        try:
            parse_store_header(octets, STORE_FILE)
        except NewerStoreFormat:
            continue


def store(data: bytes) -> None:
    """Records of a file of the message store, with gaps between them."""
    sealed = seal_store_file(data, SALT, STORE_FILE)
    disk = MemoryDisk({"store": sealed})
    walk = Walk(disk, disk.open("store"), SALT, len(sealed), STORE_FILE)
    position = FILE_HEADER_BYTES
    for each in walk.records(position):
        if isinstance(each, Gap):
            start, end = each.start, each.end
        else:
            start, end = each[0], each[0] + each[1].record_bytes
        if start != position or not start < end <= len(sealed):
            raise Found(f"{each} behind {position}")
        position = end


def stream(data: bytes) -> None:
    """A segment of a stream and its index, as a node finds them when it starts."""
    files = SegmentFiles(Path("stream"))
    chunks, index = seal_stream(data, STREAM_BASE)
    disk = MemoryDisk({files.data(STREAM_BASE): chunks, files.index(STREAM_BASE): index})
    (found,) = recover_segments(disk, files)
    if found.size > len(chunks) or found.end < found.base:
        raise Found(f"{found}")
