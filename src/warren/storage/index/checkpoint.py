"""The checkpoint: what the index knew at some moment, so that a start need not read everything.

    header      magic, version, salt, whether the stop was clean, where the journal goes on,
                the position the message store's state is true for
    state       of the message store, as it gave it
    queues      one blob each, made when the queue was scattered and kept until the next time
    checksum    of all before it

It is written beside the old one and takes its place by a rename, so there is always a whole one.

A queue's blob is true for some moment, not the same for all queues, and the journal is replayed
from an earlier one. That does no harm: what is published again is known to be in a segment, and
what is acknowledged again is known not to be alive.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final

from warren.storage.disk.checksum import crc32c
from warren.storage.disk.layout import decode_name, encode_name
from warren.storage.index.index_format import NewerFormat
from warren.storage.index.segment import ALL, SEGMENT_ENTRIES, Segment, runs_of

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex

MAGIC: Final = b"WARRENC\0"
VERSION: Final = 1

# Magic, version, salt, clean, next queue number, first journal file, store position, store bytes,
# queues.
_HEADER: Final = Struct("<8sIIBxxxIQQII")
# Number, length of the name, deleted, next sequence, redelivered below, how many delivered runs
# and segments.
_QUEUE: Final = Struct("<IHBxQQII")
_RUN: Final = Struct("<QQ")
# Number, entries, last place, ordered, embedded bytes, stored bytes, file size.
_SEGMENT: Final = Struct("<QIhBxQQQ")
_PLACES: Final = Struct("<HH")
_CHECKSUM: Final = Struct("<I")

_SETS: Final = ("live", "transient", "stored", "doomed", "unwritten_acks")

# How a set of places is written.
_NONE: Final = 0
_ALL: Final = 1
_MAP: Final = 2
_RUNS: Final = 3
_RUNS_MAX: Final = 24


class DamagedCheckpoint(Exception):
    """It cannot be used; the segments have to be read instead."""


@dataclass(slots=True)
class QueueState:
    queue_id: int
    name: str
    is_deleted: bool = False
    next_sequence: int = 0
    redelivered_below: int = 0
    delivered: list[tuple[int, int]] = field(default_factory=list)
    segments: dict[int, Segment] = field(default_factory=dict)


@dataclass(slots=True)
class Checkpoint:
    salt: int
    is_clean: bool
    next_queue_id: int
    journal_from: int
    store_position: int
    store_state: bytes
    blobs: list[bytes] = field(default_factory=list)

    def pieces(self) -> list[bytes]:
        """What to write, in order."""
        header = _HEADER.pack(
            MAGIC,
            VERSION,
            self.salt,
            self.is_clean,
            self.next_queue_id,
            self.journal_from,
            self.store_position,
            len(self.store_state),
            len(self.blobs),
        )
        pieces = [header, self.store_state, *self.blobs]
        checksum = 0
        for piece in pieces:
            checksum = crc32c(piece, checksum)
        return [*pieces, _CHECKSUM.pack(checksum)]


def decode_checkpoint(data: bytes) -> tuple[Checkpoint, list[QueueState]]:
    """Raises DamagedCheckpoint, or NewerFormat."""
    if len(data) < _HEADER.size + _CHECKSUM.size or data[: len(MAGIC)] != MAGIC:
        raise DamagedCheckpoint("it does not begin as a checkpoint does")
    if crc32c(memoryview(data)[: -_CHECKSUM.size]) != _CHECKSUM.unpack(data[-_CHECKSUM.size :])[0]:
        raise DamagedCheckpoint("its checksum is wrong")
    _, version, salt, is_clean, next_queue_id, *rest = _HEADER.unpack_from(data)
    if version > VERSION:
        raise NewerFormat(version)
    journal_from, store_position, store_bytes, queues = rest
    position = _HEADER.size + store_bytes
    state = data[_HEADER.size : position]
    checkpoint = Checkpoint(
        salt, bool(is_clean), next_queue_id, journal_from, store_position, state
    )
    states = []
    try:
        for _ in range(queues):
            queue, position = _decode_queue(data, position)
            states.append(queue)
    except (struct.error, IndexError) as error:
        raise DamagedCheckpoint("it ends too early") from error
    return checkpoint, states


def encode_queue(queue: QueueIndex) -> bytes:
    """The blob of a queue; its run of acknowledgements must be closed."""
    name = encode_name(queue.name)
    header = _QUEUE.pack(
        queue.queue_id,
        len(name),
        queue.is_deleted,
        queue.next_sequence,
        queue.redelivered_below,
        len(queue.delivered),
        len(queue.segments),
    )
    parts = [header, name]
    parts.extend(_RUN.pack(*run) for run in queue.delivered)
    parts.extend(map(_encode_segment, queue.segments.values()))
    return b"".join(parts)


def _decode_queue(data: bytes, position: int) -> tuple[QueueState, int]:
    queue_id, name_bytes, is_deleted, *rest = _QUEUE.unpack_from(data, position)
    next_sequence, redelivered_below, runs, segments = rest
    position += _QUEUE.size
    name = decode_name(data[position : position + name_bytes])
    position += name_bytes
    queue = QueueState(queue_id, name, bool(is_deleted), next_sequence, redelivered_below)
    for _ in range(runs):
        queue.delivered.append(_RUN.unpack_from(data, position))
        position += _RUN.size
    for _ in range(segments):
        segment, position = _decode_segment(data, position)
        queue.segments[segment.number] = segment
    return queue, position


def _encode_segment(segment: Segment) -> bytes:
    figures = _SEGMENT.pack(
        segment.number,
        segment.entries,
        segment.last_place,
        segment.is_ordered,
        segment.embedded_bytes,
        segment.stored_bytes,
        segment.file_size,
    )
    return figures + b"".join(_encode_places(getattr(segment, name)) for name in _SETS)


def _decode_segment(data: bytes, position: int) -> tuple[Segment, int]:
    number, entries, last_place, is_ordered, *sizes = _SEGMENT.unpack_from(data, position)
    position += _SEGMENT.size
    segment = Segment(number)
    segment.entries = entries
    segment.last_place = last_place
    segment.is_ordered = bool(is_ordered)
    segment.embedded_bytes, segment.stored_bytes, segment.file_size = sizes
    segment.has_file = True
    for name in _SETS:
        places, position = _decode_places(data, position)
        setattr(segment, name, places)
    return segment, position


def _encode_places(places: int) -> bytes:
    if not places:
        return bytes((_NONE,))
    if places == ALL:
        return bytes((_ALL,))
    runs = []
    for run in runs_of(places):
        runs.append(_PLACES.pack(*run))
        if len(runs) > _RUNS_MAX:
            return bytes((_MAP,)) + places.to_bytes(SEGMENT_ENTRIES // 8, "little")
    return bytes((_RUNS, len(runs))) + b"".join(runs)


def _decode_places(data: bytes, position: int) -> tuple[int, int]:
    way = data[position]
    position += 1
    if way == _NONE:
        return 0, position
    if way == _ALL:
        return ALL, position
    if way == _MAP:
        end = position + SEGMENT_ENTRIES // 8
        return int.from_bytes(data[position:end], "little"), end
    places = 0
    runs = data[position]
    position += 1
    for _ in range(runs):
        first, length = _PLACES.unpack_from(data, position)
        places |= ((1 << length) - 1) << first
        position += _PLACES.size
    return places, position
