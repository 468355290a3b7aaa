"""Selections of a stream: what is wanted and no more, whole, and never taken for what it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspark_warren.chunk_batches import BatchMaker
from pyspark_warren.errors import MalformedAnswer
from pyspark_warren.fetched import chunks_of
from warren.storage.disk.files import RealDisk
from warren.streams import selecting
from warren.streams.chunks import encode_chunk
from warren.streams.flags import WITHOUT_BODIES, WITHOUT_PROPERTIES, WITHOUT_ROUTES
from warren.streams.reading import SegmentReader
from warren.streams.segments import IndexEntry, Segment, SegmentFiles
from warren.streams.selecting import ChunkLead, DamagedChunk, Selected, Selection, select
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties
from warren.wire.route_key import make_route_key, split_octets
from warren.wire.tables import python_to_table

ALL = (0, 10**9)


class Files:
    """Segments as the broker has them, each record with a key, a header and a body of its own."""

    def __init__(self, directory: Path) -> None:
        self.files = SegmentFiles(directory)
        self.reader = SegmentReader(RealDisk(), self.files)
        self.segments: list[Segment] = []
        self.end = 0

    def add_segment(self, *sizes: int, body_bytes: int = 1) -> None:
        """With chunks of so many records."""
        segment = Segment(self.end, self.end)
        data, index = b"", b""
        for count in sizes:
            messages = [a_message(self.end + number, body_bytes) for number in range(count)]
            chunk = b"".join(encode_chunk(messages, self.end, 1_000 + self.end))
            entry = IndexEntry(self.end, 1_000 + self.end, len(data), count)
            segment.add(entry, len(chunk))
            data, index = data + chunk, index + entry.encoded()
            self.end += count
        self.files.data(segment.base).write_bytes(data)
        self.files.index(segment.base).write_bytes(index)
        self.segments.append(segment)

    def select(self, selection: Selection, span: tuple[int, int] = ALL) -> Selected:
        return select(self.reader, self.segments, span, selection)

    def damage(self, at: int) -> None:
        """One byte of the first segment; negative places count from its end."""
        path = self.files.data(0)
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)


def a_message(number: int, body_bytes: int = 1) -> Message:
    block = encode_properties(Properties(headers=python_to_table({"number": number})))
    body = b"%d" % number * body_bytes
    return Message(make_route_key("exchange", f"key.{number}"), PropertyBlock(block), body)


def has_key(*numbers: int) -> Callable[[ChunkLead], bool]:
    keys = {f"key.{number}".encode() for number in numbers}
    return lambda lead: any(split_octets(route)[1] in keys for route in lead.routes())


def offsets_of(data: bytes) -> list[int]:
    found = [chunk.header for chunk in chunks_of(data)]
    return [n for header in found for n in range(header.first_offset, header.end_offset)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_what_nobody_limits_comes_as_it_is_on_disk(files: Files) -> None:
    files.add_segment(3, 2)
    files.add_segment(1)
    found = files.select(Selection())
    assert found.data == files.files.data(0).read_bytes() + files.files.data(5).read_bytes()
    assert found.next_offset == 6


def test_chunks_without_a_match_are_skipped_and_the_others_come_whole(files: Files) -> None:
    files.add_segment(3, 2, 4)
    files.add_segment(5)
    found = files.select(Selection(may_match=has_key(4, 13)))
    assert offsets_of(found.data) == [3, 4, 9, 10, 11, 12, 13]
    assert found.next_offset == 14
    nothing = files.select(Selection(may_match=has_key(99)))
    assert nothing == Selected(b"", 14)
    assert files.select(Selection(), (20, 30)) == Selected(b"", 20)


@pytest.mark.parametrize("without", range(8))
def test_parts_that_are_left_out_are_blank_and_the_others_as_they_were(
    files: Files, without: int
) -> None:
    flags = without << 1
    files.add_segment(3, 1, 4, body_bytes=50)
    found = files.select(Selection(flags))
    batch = BatchMaker("q").batch(found.data, ALL)
    whole = BatchMaker("q").batch(files.files.data(0).read_bytes(), ALL)
    assert batch is not None
    assert whole is not None
    batch.validate(full=True)
    left_out = set()
    if flags & WITHOUT_BODIES:
        left_out |= {"value"}
        assert set(batch["value"].to_pylist()) == {b""}
    if flags & WITHOUT_ROUTES:
        left_out |= {"exchange", "routing_key"}
        assert set(batch["routing_key"].to_pylist()) == {""}
    if flags & WITHOUT_PROPERTIES:
        left_out |= {"headers", "properties"}
        assert batch["headers"].null_count == batch.num_rows
    for name in set(batch.schema.names) - left_out:
        assert batch[name].to_pylist() == whole[name].to_pylist(), name


def test_an_answer_is_bounded_and_says_from_where_to_go_on(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, "SCANNED_CHUNKS_MAX", 4)
    files.add_segment(*[2] * 3)
    files.add_segment(*[2] * 3)
    first = files.select(Selection(may_match=has_key(1, 11)))
    assert (offsets_of(first.data), first.next_offset) == ([0, 1], 8)
    rest = files.select(Selection(may_match=has_key(1, 11)), (8, 12))
    assert (offsets_of(rest.data), rest.next_offset) == ([10, 11], 12)
    monkeypatch.setattr(selecting, "SELECTED_BYTES_MAX", 1)
    one = files.select(Selection(WITHOUT_BODIES))
    assert (offsets_of(one.data), one.next_offset) == ([0, 1], 2)


def test_chunks_longer_than_what_is_read_at_a_time_are_whole(files: Files) -> None:
    files.add_segment(2, 300, 2, body_bytes=1_000)
    found = files.select(Selection(may_match=has_key(100, 303)))
    assert offsets_of(found.data) == list(range(2, 304))
    bodiless = files.select(Selection(WITHOUT_BODIES))
    assert offsets_of(bodiless.data) == list(range(304))
    assert len(bodiless.data) < len(found.data) / 10


def test_damage_is_never_sent_as_if_it_were_sound(files: Files) -> None:
    files.add_segment(2, 2, body_bytes=100)
    files.damage(-20)
    whole = files.select(Selection(may_match=has_key(0, 3)))
    with pytest.raises(MalformedAnswer, match="the chunk of offset 2 is damaged"):
        offsets_of(whole.data)
    with pytest.raises(DamagedChunk, match="the chunk of offset 2 is damaged"):
        files.select(Selection(WITHOUT_PROPERTIES))
    assert offsets_of(files.select(Selection(WITHOUT_BODIES)).data) == [0, 1, 2, 3]


def test_a_damaged_header_is_named(files: Files) -> None:
    files.add_segment(2, 2)
    files.damage(5)
    with pytest.raises(DamagedChunk, match="the chunk of offset 0 is damaged"):
        files.select(Selection(WITHOUT_BODIES))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=4),
    wanted=st.frozensets(st.integers(0, 40), max_size=5),
    span=st.tuples(st.integers(0, 45), st.integers(0, 45)),
    without=st.integers(0, 7),
    scanned_max=st.integers(1, 5),
)
def test_asked_on_to_the_end_no_record_is_missing(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[list[int]],
    wanted: frozenset[int],
    span: tuple[int, int],
    without: int,
    scanned_max: int,
) -> None:
    files = Files(tmp_path_factory.mktemp("segments"))
    for segment in sizes:
        files.add_segment(*segment)
    position, end = span[0], min(span[1], files.end)
    found: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selecting, "SCANNED_CHUNKS_MAX", scanned_max)
        while position < end:
            answer = files.select(Selection(without << 1, has_key(*wanted)), (position, end))
            found += offsets_of(answer.data)
            assert answer.next_offset > position
            position = answer.next_offset
    assert sorted(set(found)) == found
    expected = {n for n in wanted if span[0] <= n < end}
    assert expected <= set(found)
