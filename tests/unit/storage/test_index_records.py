"""Records: both ways of encoding give the same bytes, and damage is passed over."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.storage.disk.checksum import crc32c
from warren.storage.index import _index_records_py, index_records
from warren.storage.index.index_format import (
    ACK,
    ACK_RANGE,
    DELETE,
    FILE_START,
    JOURNAL_MAGIC,
    PUBLISH,
    QUEUE,
    SEGMENT_MAGIC,
    SEQUENCE_MAX,
    STORED,
    TRANSIENT,
    DamagedHeader,
    NewerFormat,
    file_header,
    parse_file_header,
)
from warren.storage.index.index_records import RecordBuffer, scan
from warren.storage.index.states import (
    DEAD,
    GATHERED,
    JOURNALED,
    SCATTERING,
    SEGMENTED,
    TRANSIENT_FILE_MIN,
    WRITING,
)
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

SALT = 0xC0FFEE
BLOCKS = [PropertyBlock(raw) for raw in (b"\x10\x00\x02", b"\x10\x00\x01", b"\x00\x00")]
TWINS = [index_records, _index_records_py]


@st.composite
def messages(draw: st.DrawFn) -> QueuedMessage:
    body = draw(st.binary(max_size=300))
    message = Message(draw(st.binary(max_size=20)), draw(st.sampled_from(BLOCKS)), body)
    queued = QueuedMessage(message, draw(st.integers(0, 2**63)), draw(st.integers(0, 2**60)))
    queued.size = len(body)
    queued.state = draw(st.sampled_from([GATHERED, GATHERED, DEAD]))
    if draw(st.booleans()):
        queued.store_file = draw(st.sampled_from([0, 7, TRANSIENT_FILE_MIN]))
        queued.store_offset = draw(st.integers(0, 2**40))
    return queued


def make(body: bytes, sequence: int, raw: bytes = b"\x10\x00\x02") -> QueuedMessage:
    queued = QueuedMessage(Message(b"\x00\x01q", PropertyBlock(raw), body), sequence, 0)
    queued.size = len(body)
    queued.state = GATHERED
    return queued


def fill(twin: ModuleType, gathered: list[QueuedMessage]) -> bytes:
    buffer = twin.RecordBuffer(SALT)
    buffer.file_started(4, 3, 999)
    buffer.queue_named(5, b"queue")
    assert buffer.publishes(5, gathered, 0, 1 << 40) == len(gathered)
    buffer.ack(5, 10, 3, 300)
    buffer.ack_stored(5, 13, 5_000, 2, 70_000)
    buffer.ack_range(5, 0, 2_048)
    buffer.queue_deleted(6)
    assert buffer.size == len(buffer.view())
    return bytes(buffer.view())


@given(st.lists(messages(), max_size=5))
def test_both_twins_write_the_same_and_read_the_same(gathered: list[QueuedMessage]) -> None:
    states = [queued.state for queued in gathered]
    compiled = fill(index_records, gathered)
    assert all(
        q.state == (WRITING if s == GATHERED else DEAD)
        for q, s in zip(gathered, states, strict=True)
    )
    for queued, state in zip(gathered, states, strict=True):
        queued.state = state
    assert fill(_index_records_py, gathered) == compiled
    fields = ("kind", "flags", "queue_id", "sequence", "start", "length", "count", "size",
              "expires_at_ms", "store_file", "store_offset")  # fmt: skip
    found = [twin.scan(compiled, 0, SALT) for twin in TWINS]
    for first, second in zip(found[0][0], found[1][0], strict=True):
        assert [getattr(first, f) for f in fields] == [getattr(second, f) for f in fields]
    assert found[0][1:] == found[1][1:] == (len(compiled), [])


@pytest.mark.parametrize("twin", TWINS)
@given(queued=messages())
def test_a_message_comes_back_as_it_was(twin: ModuleType, queued: QueuedMessage) -> None:
    queued.state = GATHERED
    data = fill(twin, [queued])
    (record,) = [record for record in twin.scan(data, 0, SALT)[0] if record.kind == PUBLISH]
    back = record.queued(data)
    assert (back.sequence, back.expires_at_ms) == (queued.sequence, queued.expires_at_ms)
    assert (back.size, back.state) == (queued.size, JOURNALED)
    assert (back.store_file, back.store_offset) == (queued.store_file, queued.store_offset)
    if record.flags & STORED:
        assert back.message is None
        assert bool(record.flags & TRANSIENT) == (queued.store_file >= TRANSIENT_FILE_MIN)
    else:
        assert back.message.body == queued.message.body
        assert back.message.route_key == queued.message.route_key
        assert back.message.properties.raw == queued.message.properties.raw
        assert bool(record.flags & TRANSIENT) != queued.message.properties.persistent


@pytest.mark.parametrize("twin", TWINS)
def test_all_kinds_of_record_say_what_they_were_told(twin: ModuleType) -> None:
    data = fill(twin, [])
    start, name, ack, stored, span, delete = twin.scan(data, 0, SALT)[0]
    assert (start.kind, start.sequence, start.count, start.size) == (FILE_START, 4, 3, 999)
    assert (name.kind, name.queue_id, name.payload(data)) == (QUEUE, 5, b"queue")
    assert (ack.kind, ack.sequence, ack.count, ack.size) == (ACK, 10, 3, 300)
    assert (stored.flags, stored.store_file, stored.store_offset) == (STORED, 2, 70_000)
    assert (span.kind, span.sequence, span.count) == (ACK_RANGE, 0, 2_048)
    assert (delete.kind, delete.queue_id) == (DELETE, 6)


@pytest.mark.parametrize("twin", TWINS)
def test_a_full_buffer_leaves_the_rest_for_later(twin: ModuleType) -> None:
    gathered = [make(bytes(1_000), n) for n in range(10)]
    buffer = twin.RecordBuffer(SALT)
    assert buffer.publishes(1, gathered, 0, 2_500) == 3
    assert [queued.state for queued in gathered] == [WRITING] * 3 + [GATHERED] * 7
    buffer.clear()
    assert buffer.publishes(1, gathered, 3, 1 << 40) == 10


@pytest.mark.parametrize("twin", TWINS)
def test_copying_stops_at_the_end_of_a_segment(twin: ModuleType) -> None:
    entries = [make(b"x", n) for n in (2_046, 2_047, 2_048)]
    for queued in entries:
        queued.state = JOURNALED
    entries[0].state = DEAD
    buffer = twin.RecordBuffer(SALT)
    assert buffer.scatter(1, entries, 0, 2_048, 1 << 40) == 2
    assert [queued.state for queued in entries] == [DEAD, SCATTERING, JOURNALED]
    (record,) = twin.scan(bytes(buffer.view()), 0, SALT)[0]
    assert record.sequence == 2_047


@pytest.mark.parametrize("twin", TWINS)
@given(seed=st.integers(0, 2**32))
def test_damage_costs_the_records_it_touches_and_no_others(twin: ModuleType, seed: int) -> None:
    dice = random.Random(seed)
    gathered = [make(dice.randbytes(dice.randrange(200)), n) for n in range(12)]
    buffer = twin.RecordBuffer(SALT)
    buffer.publishes(1, gathered, 0, 1 << 40)
    data = bytearray(buffer.view())
    whole = twin.scan(bytes(data), 0, SALT)[0]
    start = dice.randrange(len(data))
    stop = min(len(data), start + dice.choice((1, 50, 500)))
    for position in range(start, stop):
        data[position] ^= dice.randrange(1, 256)
    untouched = [r.sequence for r in whole if r.start >= stop or r.start + r.length <= start]
    records, end, damage = twin.scan(bytes(data), 0, SALT)
    assert [record.sequence for record in records] == untouched
    lost = sum(b - a for a, b in damage) + len(data) - end
    assert (lost > 0) == (len(untouched) < len(whole))


@pytest.mark.parametrize("twin", TWINS)
def test_a_body_that_looks_like_a_record_is_not_taken_for_one(twin: ModuleType) -> None:
    """A client puts records into a body; then the record around it is damaged."""
    forged = twin.RecordBuffer(SALT + 1)
    forged.queue_deleted(1)
    buffer = twin.RecordBuffer(SALT)
    buffer.publishes(1, [make(bytes(forged.view()) * 8, 0), make(b"good", 1)], 0, 1 << 40)
    data = bytearray(buffer.view())
    data[0] ^= 1
    records, _, damage = twin.scan(bytes(data), 0, SALT)
    assert [(record.kind, record.sequence) for record in records] == [(PUBLISH, 1)]
    assert len(damage) == 1


@pytest.mark.parametrize("twin", TWINS)
def test_the_last_number_there_is_has_no_successor_and_is_damage(twin: ModuleType) -> None:
    last = SEQUENCE_MAX + 1
    data = fill(twin, [make(b"x", last - 1), make(b"x", last), make(b"x", 7)])
    records, _, damage = twin.scan(data, 0, SALT)
    published = [record.sequence for record in records if record.kind == PUBLISH]
    assert published == [last - 1, 7]
    assert len(damage) == 1


@pytest.mark.parametrize("twin", TWINS)
def test_zeros_at_the_end_are_the_end(twin: ModuleType) -> None:
    data = fill(twin, [make(b"x", 0)])
    records, end, damage = twin.scan(data + bytes(10_000), 0, SALT)
    assert (len(records), end, damage) == (7, len(data), [])


@pytest.mark.parametrize("twin", TWINS)
def test_a_segment_is_read_as_far_as_wanted(twin: ModuleType) -> None:
    buffer = twin.RecordBuffer(SALT)
    buffer.publishes(1, [make(b"%03d" % n, 2_048 + n) for n in range(100)], 0, 1 << 40)
    buffer.ack(1, 2_048, 5, 0)
    data = bytes(buffer.view())
    wanted = (1 << 3 | 1 << 50 | 1 << 99).to_bytes(256, "little")
    reader = twin.EntryReader(SALT, 2_048, wanted)
    entries = reader.read(data, 0, 1 << 30)
    assert [queued.message.body for queued in entries] == [b"003", b"050", b"099"]
    assert all(queued.state == SEGMENTED for queued in entries)
    assert (reader.left, reader.damaged) == (0, 0)
    assert reader.position == twin.scan(data, 0, SALT)[0][-1].start, "what follows is not looked at"


@pytest.mark.parametrize("twin", TWINS)
def test_reading_goes_on_where_it_stopped(twin: ModuleType) -> None:
    buffer = twin.RecordBuffer(SALT)
    buffer.publishes(1, [make(bytes(100), n) for n in range(50)], 0, 1 << 40)
    data = bytes(buffer.view())
    reader = twin.EntryReader(SALT, 0, b"\xff" * 256)
    found: list[int] = []
    position = 0
    while position < len(data):
        chunk = data[position : position + 700]  # ends within a record
        found += [queued.sequence for queued in reader.read(chunk, 0, 400)]
        assert reader.passed == found[-1] + 1
        position += reader.position
    assert found == list(range(50))


def test_messages_read_back_share_what_is_the_same() -> None:
    """A publisher's messages have one route key and one property block between them."""
    if index_records.scan is _index_records_py.scan:
        pytest.skip("a matter of the compiled twin")
    buffer = RecordBuffer(SALT)
    buffer.publishes(1, [make(b"a", 0), make(b"b", 1), make(b"c", 2, b"\x00\x00")], 0, 1 << 40)
    reader = index_records.EntryReader(SALT, 0, b"\xff" * 256)
    first, second, third = reader.read(bytes(buffer.view()), 0, 1 << 30)
    assert first.message.properties is second.message.properties
    assert first.message.route_key is second.message.route_key is third.message.route_key
    assert third.message.properties.raw == b"\x00\x00"


def test_a_file_says_what_it_is() -> None:
    header = file_header(SEGMENT_MAGIC, 77, 5, 9)
    assert parse_file_header(SEGMENT_MAGIC, header + b"rest") == (77, 5, 9)
    with pytest.raises(DamagedHeader):
        parse_file_header(JOURNAL_MAGIC, header)
    for position in range(len(header)):
        damaged = bytearray(header)
        damaged[position] ^= 4
        with pytest.raises(DamagedHeader):
            parse_file_header(SEGMENT_MAGIC, bytes(damaged))


def test_a_file_of_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr("warren.storage.index.index_format.VERSION", 2)
        header = file_header(SEGMENT_MAGIC, 77, 5, 9)
    with pytest.raises(NewerFormat, match="format 2"):
        parse_file_header(SEGMENT_MAGIC, header)


def test_the_wrong_salt_reads_nothing() -> None:
    data = fill(index_records, [make(b"x", 0)])
    assert scan(data, 0, SALT + 1)[0] == []


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("write", ["queue_named", "queue_deleted", "ack_range"])
def test_a_record_that_claims_a_place_in_the_store_without_room_for_it_is_damage(
    twin: ModuleType, write: str
) -> None:
    """Crafted, with a right checksum: the location would be read behind the end of the data."""
    buffer = twin.RecordBuffer(SALT)
    arguments = {"queue_named": (5, b"q"), "queue_deleted": (6,), "ack_range": (5, 0, 64)}
    getattr(buffer, write)(*arguments[write])
    data = bytearray(buffer.view())
    length = int.from_bytes(data[4:8], "little")
    data[9] |= STORED
    data[0:4] = crc32c(bytes(data[4:length]), SALT).to_bytes(4, "little")
    assert twin.scan(bytes(data), 0, SALT)[0] == []
