"""Files of the journal: what the first record says, and how many zeros are written ahead."""

from __future__ import annotations

from pathlib import Path

from warren.storage.disk.files import RealDisk, place_all
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.index_format import FILE_HEADER_BYTES, FILE_START
from warren.storage.index.index_records import RecordBuffer, scan
from warren.storage.index.journal import (
    FILL_BYTES_MAX,
    FILL_BYTES_MIN,
    FILLED_BATCH_BYTES_MAX,
    Journal,
)


def begun(tmp_path: Path) -> Journal:
    layout = IndexLayout(tmp_path, "/")
    layout.journal_directory.mkdir(exist_ok=True)
    journal = Journal(layout, RealDisk(), salt=7)
    number = journal.new_number()
    journal.begin(number, journal.create(number))
    return journal


def zeros_with(journal: Journal, batch_bytes: int) -> int:
    """Have a batch written and be safe; how many zeros it was given."""
    descriptor, offset, pieces = journal.place(memoryview(bytes(batch_bytes)))
    assert (descriptor, offset) == (journal.descriptor, journal.size)
    journal.size += batch_bytes
    return sum(map(len, pieces)) - batch_bytes


def test_the_first_record_names_the_last_file_with_something_in_it(tmp_path: Path) -> None:
    """Between them one was begun that no batch got to."""
    layout = IndexLayout(tmp_path, "/")
    layout.journal_directory.mkdir()
    journal = Journal(layout, RealDisk(), salt=7)
    for size in (500, FILE_HEADER_BYTES, FILE_HEADER_BYTES):
        number = journal.new_number()
        journal.begin(number, journal.create(number))
        journal.size = size
    buffer = RecordBuffer(7)
    journal.lead_in(buffer)
    records, _, _ = scan(bytes(buffer.view()), 0, 7)
    assert [(r.kind, r.sequence, r.count, r.size) for r in records] == [(FILE_START, 2, 0, 500)]
    journal.close()


def test_small_batches_bring_more_zeros_each_time_up_to_a_bound(tmp_path: Path) -> None:
    journal = begun(tmp_path)
    brought = [zeros_with(journal, 1_000) for _ in range(2_000)]
    found = [count for count in brought if count]
    doublings = [FILL_BYTES_MIN << times for times in range(len(found))]
    assert found == [min(count, FILL_BYTES_MAX) for count in doublings]
    assert len(found) < 20, "few batches have to grow the file"
    assert brought[0] == FILL_BYTES_MIN
    journal.close()


def test_a_large_batch_brings_no_zeros(tmp_path: Path) -> None:
    journal = begun(tmp_path)
    assert zeros_with(journal, FILLED_BATCH_BYTES_MAX + 1) == 0
    assert zeros_with(journal, FILLED_BATCH_BYTES_MAX) == FILL_BYTES_MIN
    journal.close()


def test_after_a_failure_nothing_is_written_ahead_until_there_is_room(tmp_path: Path) -> None:
    journal = begun(tmp_path)
    journal.may_fill = False
    assert zeros_with(journal, 1_000) == 0
    journal.drop_before(0)
    assert zeros_with(journal, 1_000) == FILL_BYTES_MIN
    journal.close()


def test_a_fresh_file_has_no_zeros(tmp_path: Path) -> None:
    """A virtual host whose journal is not written to takes no room for what may come."""
    journal = begun(tmp_path)
    assert (tmp_path / "journal" / "0.jif").stat().st_size == FILE_HEADER_BYTES
    zeros_with(journal, 1_000)
    number = journal.new_number()
    journal.begin(number, journal.create(number))
    assert zeros_with(journal, 1_000) == 2 * FILL_BYTES_MIN, "nothing is left of the file before"
    journal.close()


def test_a_failed_batch_gives_its_zeros_back_and_nothing_else(tmp_path: Path) -> None:
    """Not its records, and not the header of a file that no batch got to."""
    journal = begun(tmp_path)
    path = tmp_path / "journal" / "0.jif"
    failed = (0, journal.descriptor, journal.batch_end)
    journal.begin(1, journal.create_after(failed, 1))
    assert path.stat().st_size == FILE_HEADER_BYTES
    descriptor, offset, pieces = journal.place(memoryview(b"x" * 1_000))
    place_all(RealDisk(), descriptor, offset, pieces)
    failed = (1, journal.descriptor, journal.batch_end)
    journal.begin(2, journal.create_after(failed, 2))
    content = (tmp_path / "journal" / "1.jif").read_bytes()
    assert content[FILE_HEADER_BYTES:] == b"x" * 1_000
    journal.close()
