"""Files of the journal that nothing safe was written to say nothing."""

from __future__ import annotations

from pathlib import Path

from warren.storage.disk.files import RealDisk
from warren.storage.disk.layout import IndexLayout
from warren.storage.index.index_format import FILE_HEADER_BYTES, FILE_START
from warren.storage.index.index_records import RecordBuffer, scan
from warren.storage.index.journal import Journal


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
