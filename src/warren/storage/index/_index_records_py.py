"""Records in plain Python: what `_index_records.pyx` does fast, in a form to be read.

Format: `index_format.py`. `RecordBuffer` gathers records to be written; `scan` makes `Record`s of
bytes read back, and finds its way past damage; `EntryReader` makes messages of a segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warren.storage.disk.checksum import crc32c
from warren.storage.index.index_format import (
    ACK,
    ACK_FIELDS,
    ACK_RANGE,
    ALIGNMENT,
    DELETE,
    FILE_START,
    HEAD,
    LOCATION,
    NUMBER,
    PUBLISH,
    PUBLISH_FIELDS,
    QUEUE,
    RECORD_BYTES_MAX,
    SEQUENCE_MAX,
    STORE_FILE_MAX,
    STORED,
    TRANSIENT,
)
from warren.storage.index.states import (
    GATHERED,
    JOURNALED,
    SCATTERING,
    SEGMENTED,
    TRANSIENT_FILE_MIN,
    WRITING,
)
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

EMBEDDED: Final = -1

_KINDS: Final = range(PUBLISH, FILE_START + 1)


class RecordBuffer:
    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def clear(self) -> None:
        self._data = bytearray()

    def view(self) -> memoryview:
        return memoryview(self._data)

    def publishes(
        self, queue_id: int, gathered: list[QueuedMessage], position: int, bytes_max: int
    ) -> int:
        """Those still GATHERED become WRITING; returns where to go on once the buffer is full."""
        while position < len(gathered) and self.size < bytes_max:
            queued = gathered[position]
            position += 1
            if queued.state == GATHERED:
                queued.state = WRITING
                self._publish(queue_id, queued)
        return position

    def scatter(
        self, queue_id: int, journaled: list[QueuedMessage], position: int, end: int, bytes_max: int
    ) -> int:
        """The same for what is JOURNALED and becomes SCATTERING, up to sequence number `end`."""
        while position < len(journaled) and self.size < bytes_max:
            queued = journaled[position]
            if queued.sequence >= end:
                break
            position += 1
            if queued.state == JOURNALED:
                queued.state = SCATTERING
                self._publish(queue_id, queued)
        return position

    def ack(self, queue_id: int, first: int, count: int, body_bytes: int) -> None:
        self._append(ACK, queue_id, first, ACK_FIELDS.pack(count, body_bytes))

    def ack_stored(
        self, queue_id: int, sequence: int, body_bytes: int, file: int, offset: int
    ) -> None:
        fields = ACK_FIELDS.pack(1, body_bytes) + LOCATION.pack(file, offset)
        self._append(ACK, queue_id, sequence, fields, (STORED, 0))

    def ack_range(self, queue_id: int, first: int, end: int) -> None:
        self._append(ACK_RANGE, queue_id, first, NUMBER.pack(end))

    def queue_named(self, queue_id: int, name: bytes) -> None:
        self._append(QUEUE, queue_id, 0, name)

    def queue_deleted(self, queue_id: int) -> None:
        self._append(DELETE, queue_id, 0, b"")

    def file_started(self, number: int, previous: int, previous_end: int) -> None:
        self._append(FILE_START, 0, number, ACK_FIELDS.pack(previous, previous_end))

    def _publish(self, queue_id: int, queued: QueuedMessage) -> None:
        if queued.store_file != EMBEDDED:
            flags = STORED | (TRANSIENT if queued.store_file >= TRANSIENT_FILE_MIN else 0)
            location = LOCATION.pack(queued.store_file, queued.store_offset)
            fields = PUBLISH_FIELDS.pack(queued.expires_at_ms, 0, queued.size)
            self._append(PUBLISH, queue_id, queued.sequence, fields + location, (flags, 0))
            return
        message = queued.message
        raw = message.properties.raw
        flags = 0 if message.properties.persistent else TRANSIENT
        fields = PUBLISH_FIELDS.pack(queued.expires_at_ms, len(raw), len(message.body))
        content = b"".join((fields, message.route_key, raw, message.body))
        details = (flags, len(message.route_key))
        self._append(PUBLISH, queue_id, queued.sequence, content, details)

    def _append(
        self,
        kind: int,
        queue_id: int,
        sequence: int,
        payload: bytes,
        details: tuple[int, int] = (0, 0),
    ) -> None:
        """`details`: flags, and the length of the route key."""
        length = HEAD.size + len(payload)
        head = HEAD.pack(0, length, kind, *details, queue_id, sequence)
        covered = head[4:] + payload
        self._data += crc32c(covered, self._salt).to_bytes(4, "little") + covered
        self._data += bytes(-length % ALIGNMENT)


@dataclass(slots=True)
class Record:
    """A record found at `start` of the bytes scanned. Which fields mean something: the format."""

    kind: int
    flags: int
    queue_id: int
    sequence: int
    start: int
    length: int
    count: int = 0
    size: int = 0
    expires_at_ms: int = 0
    store_file: int = -1
    store_offset: int = 0

    def payload(self, data: bytes) -> bytes:
        return data[self.start + HEAD.size : self.start + self.length]

    def queued(self, data: bytes) -> QueuedMessage:
        """The message a PUBLISH is about; without content if the message store has that."""
        message = None if self.flags & STORED else self._message(data)
        queued = QueuedMessage(message, self.sequence, self.expires_at_ms)  # type: ignore[arg-type]
        queued.size = self.size
        queued.store_file = self.store_file
        queued.store_offset = self.store_offset
        queued.state = JOURNALED
        return queued

    def _message(self, data: bytes) -> Message:
        route_key_bytes = HEAD.unpack_from(data, self.start)[4]
        raw_bytes = PUBLISH_FIELDS.unpack_from(data, self.start + HEAD.size)[1]
        raw_at = self.start + HEAD.size + PUBLISH_FIELDS.size + route_key_bytes
        body_at = raw_at + raw_bytes
        return Message(
            data[raw_at - route_key_bytes : raw_at],
            PropertyBlock(data[raw_at:body_at]),
            data[body_at : body_at + self.size],
        )


def scan(data: bytes, start: int, salt: int) -> tuple[list[Record], int, list[tuple[int, int]]]:
    """All good records, where the last of them ends, and which stretches before are damaged."""
    records: list[Record] = []
    damage: list[tuple[int, int]] = []
    position = end = start
    while (record := _record_at(data, position, salt)) is not None or (
        found := _next_good(data, position + ALIGNMENT, salt)
    ) >= 0:
        if record is None:
            damage.append((position, found))
            position = found
            continue
        records.append(record)
        position = end = _aligned(record.start + record.length)
    return records, min(end, len(data)), damage


class EntryReader:
    """Makes messages of a segment that begins at sequence number `base`."""

    def __init__(self, salt: int, base: int, wanted: bytes) -> None:
        self._salt = salt
        self._base = base
        self._wanted = wanted
        self.position = 0
        self.passed = base
        self.damaged = 0
        self.left = int.from_bytes(wanted, "little").bit_count()

    def read(self, data: bytes, start: int, bytes_max: int) -> list[QueuedMessage]:
        """Those that `wanted` has a bit for, of about `bytes_max` together.

        Leaves in `position` where to go on, in `passed` the number after the highest it came by,
        and in `left` how many it has yet to find: no record after the last of these is looked at.
        Counts in `damaged` the bytes it could make nothing of.
        """
        entries: list[QueuedMessage] = []
        position = start
        while bytes_max > 0 and self.left > 0:
            record = _record_at(data, position, self._salt)
            if record is None:
                found = _next_good(data, position + ALIGNMENT, self._salt)
                if found < 0:
                    break
                self.damaged += found - position
                position = found
                continue
            position = _aligned(record.start + record.length)
            if record.kind == PUBLISH:
                self.passed = max(self.passed, record.sequence + 1)
            if self._is_wanted(record):
                queued = record.queued(data)
                queued.state = SEGMENTED
                entries.append(queued)
                bytes_max -= record.length
                self.left -= 1
        self.position = min(position, len(data))
        return entries

    def _is_wanted(self, record: Record) -> bool:
        place = record.sequence - self._base
        if record.kind != PUBLISH or not 0 <= place < 8 * len(self._wanted):
            return False
        return bool(self._wanted[place >> 3] >> (place & 7) & 1)


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _next_good(data: bytes, position: int, salt: int) -> int:
    while position + HEAD.size <= len(data):
        if _record_at(data, position, salt) is not None:
            return position
        position += ALIGNMENT
    return -1


def _record_at(data: bytes, position: int, salt: int) -> Record | None:
    if position + HEAD.size > len(data):
        return None
    fields = HEAD.unpack_from(data, position)
    checksum, length, kind, flags, route_key_bytes, queue_id, sequence = fields
    if kind not in _KINDS or not HEAD.size <= length <= min(RECORD_BYTES_MAX, len(data) - position):
        return None
    if crc32c(memoryview(data)[position + 4 : position + length], salt) != checksum:
        return None
    record = Record(kind, flags, queue_id, sequence, position, length)
    return record if _take_fields(record, data, route_key_bytes) else None


def _take_fields(record: Record, data: bytes, route_key_bytes: int) -> bool:
    at = record.start + HEAD.size
    room = record.length - HEAD.size
    needed = 0
    if record.kind == PUBLISH:
        needed = PUBLISH_FIELDS.size + (LOCATION.size if record.flags & STORED else 0)
        if room < needed or record.sequence > SEQUENCE_MAX:
            return False
        record.expires_at_ms, raw_bytes, record.size = PUBLISH_FIELDS.unpack_from(data, at)
        if not record.flags & STORED:
            needed += route_key_bytes + raw_bytes + record.size
    elif record.kind in {ACK, FILE_START}:
        needed = ACK_FIELDS.size + (LOCATION.size if record.flags & STORED else 0)
        if room < needed:
            return False
        record.count, record.size = ACK_FIELDS.unpack_from(data, at)
    elif record.kind == ACK_RANGE:
        needed = NUMBER.size
        if room < needed:
            return False
        (record.count,) = NUMBER.unpack_from(data, at)
    if record.flags & STORED:
        if record.kind not in {PUBLISH, ACK, FILE_START}:
            return False  # others have no location
        # Both kinds that have a location have two words of 8 bytes before it.
        record.store_file, record.store_offset = LOCATION.unpack_from(data, at + 16)
        if not 0 <= record.store_file <= STORE_FILE_MAX:
            return False
    return room >= needed
