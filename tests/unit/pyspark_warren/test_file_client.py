"""Streams read from their files, as a broker leaves them, and as copies may be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pytest

from pyspark_warren import file_client
from pyspark_warren.chunk_batches import BatchMaker
from pyspark_warren.errors import DataLost, InvalidOption, QueueMissing
from pyspark_warren.file_client import FileClient
from pyspark_warren.schema import column_names
from pyspark_warren.span_pieces import Bounds, span_pieces
from warren.streams.chunks import encode_chunk
from warren.streams.segments import IndexEntry, SegmentFiles
from warren.wire.codec import Message, PropertyBlock

BLOCK = PropertyBlock(b"\x10\x00\x02")
# Chunks of so many records, in three segments.
COUNTS = ((3, 1, 2), (5,), (1, 1, 4))
RECORDS = sum(sum(counts) for counts in COUNTS)


def a_chunk(first: int, count: int) -> bytes:
    messages = [Message(b"\0\x01k", BLOCK, b"%d" % n * 9) for n in range(first, first + count)]
    return b"".join(encode_chunk(messages, first, 1_000 + first))


def write_segments(directory: Path, name: str | None = "orders") -> SegmentFiles:
    """Each chunk is taken a millisecond per record after 1000."""
    files = SegmentFiles(directory)
    directory.mkdir(parents=True)
    if name is not None:
        (directory / ".queue_name").write_text(name)
    first = 0
    for counts in COUNTS:
        starts = list(accumulate(counts, initial=first))
        chunks = [a_chunk(start, count) for start, count in zip(starts, counts, strict=False)]
        places = accumulate(map(len, chunks), initial=0)
        entries = [
            IndexEntry(start, 1_000 + start, place, count).encoded()
            for start, place, count in zip(starts, places, counts, strict=False)
        ]
        files.data(first).write_bytes(b"".join(chunks))
        files.index(first).write_bytes(b"".join(entries))
        first = starts[-1]
    return files


@contextmanager
def opened(path: Path) -> Iterator[FileClient]:
    with FileClient(str(path)) as client:
        yield client


def offsets_of(path: Path, start: int, end: int, *, is_loss_fatal: bool = True) -> list[int]:
    maker = BatchMaker("orders", column_names(include_headers=False))
    found: list[int] = []
    with opened(path) as client:
        for piece in span_pieces(client, "orders", (start, end), Bounds(1, is_loss_fatal)):
            for batch in maker.batches(piece, (start, end)):
                assert batch["value"].to_pylist() == [
                    b"%d" % n * 9 for n in batch["offset"].to_pylist()
                ]
                found += batch["offset"].to_pylist()
    return found


@pytest.fixture(params=["all in one piece", "a piece for each chunk"])
def files(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SegmentFiles:
    if request.param == "a piece for each chunk":
        monkeypatch.setattr(file_client, "PIECE_BYTES", 1)
    return write_segments(tmp_path / "orders")


@pytest.mark.parametrize(
    "kept", ["all of the index", "half of the index", "no index", "a wrong one"]
)
@pytest.mark.parametrize("span", [(0, RECORDS), (2, 7), (6, 11), (RECORDS - 1, RECORDS), (4, 5)])
def test_every_record_of_a_span_is_read_whatever_the_index_says(
    files: SegmentFiles, kept: str, span: tuple[int, int]
) -> None:
    for index in files.directory.glob("*.index"):
        if kept == "no index":
            index.unlink()
        elif kept == "half of the index":
            index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
        elif kept == "a wrong one":
            index.write_bytes(b"\x07" * 96)
    assert offsets_of(files.directory, *span) == list(range(*span))


def test_extent_and_moments_and_cuts_are_as_a_broker_says(files: SegmentFiles) -> None:
    with opened(files.directory) as client:
        extent = client.extent("orders")
        assert (extent.first, extent.end) == (0, RECORDS)
        assert [client.offset_at("orders", 1_000 + n) for n in (0, 1, 4, 99)] == [0, 3, 4, RECORDS]
        cuts = client.cuts("orders", (3, 13), 100)
        assert [cut.offset for cut in cuts] == [3, 4, 6, 11, 12]
        assert [cut.bytes for cut in cuts] == sorted(cut.bytes for cut in cuts)
        assert len(client.cuts("orders", (0, RECORDS), 2)) == 2


def test_what_is_torn_at_the_end_is_not_there(files: SegmentFiles) -> None:
    newest = files.data(11)
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-8])
    with opened(files.directory) as client:
        assert client.extent("orders").end == 13
    newest.write_bytes(whole[:-8] + b"\xffmarred\xff")
    with opened(files.directory) as client:
        assert client.extent("orders").end == 13
    newest.write_bytes(b"")
    with opened(files.directory) as client:
        assert client.extent("orders").end == 11


def test_what_is_beyond_the_next_segment_is_void(files: SegmentFiles) -> None:
    """A segment whose last write failed may have more than was safe."""
    with files.data(0).open("ab") as older:
        older.write(a_chunk(6, 2))
    assert offsets_of(files.directory, 0, RECORDS) == list(range(RECORDS))


def test_a_stream_that_grows_is_read_on(files: SegmentFiles) -> None:
    with opened(files.directory) as client:
        assert client.extent("orders").end == RECORDS
        with files.data(11).open("ab") as newest:
            newest.write(a_chunk(RECORDS, 3))
        assert client.extent("orders").end == RECORDS + 3


def test_segments_that_are_gone_are_said_to_be(files: SegmentFiles) -> None:
    files.data(0).unlink()
    with pytest.raises(DataLost, match="begins at 6"):
        offsets_of(files.directory, 0, RECORDS)
    assert offsets_of(files.directory, 0, RECORDS, is_loss_fatal=False) == list(range(6, RECORDS))


def test_streams_are_found_by_name_below_a_directory(tmp_path: Path) -> None:
    write_segments(tmp_path / "vhost" / "streams" / "HASH1", "orders")
    write_segments(tmp_path / "vhost" / "streams" / "HASH2", "bills")
    write_segments(tmp_path / "vhost" / "streams" / "HASH3.gone-1", "orders")
    write_segments(tmp_path / "archive", None)
    with opened(tmp_path) as client:
        assert sorted(client.queues()) == ["archive", "bills", "orders"]
        assert client.extent("archive").end == RECORDS
        with pytest.raises(QueueMissing, match=r"no stream 'order' .* found: .*'orders'"):
            client.extent("order")
    shutil.copytree(tmp_path / "archive", tmp_path / "vhost" / "archive")
    with opened(tmp_path) as client, pytest.raises(InvalidOption, match="both have a stream"):
        client.queues()


def test_a_directory_without_streams_is_no_path(tmp_path: Path) -> None:
    with opened(tmp_path) as client, pytest.raises(InvalidOption, match="no segments"):
        client.queues()
