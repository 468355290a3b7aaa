"""Opening the file with suspicion: whatever is wrong is said, with the file and what to do."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from warren.metadata.directory_lock import LOCK_NAME, DirectoryLock
from warren.metadata.sqlite import SqliteStore
from warren.metadata.sqlite_file import SCHEMA_VERSION, MetadataFile
from warren.metadata.store import MetadataUnavailable, MetadataUnusable, Record


@pytest.fixture
def file(path: Path) -> Iterator[MetadataFile]:
    """A file with two hundred records in it, open."""
    file = MetadataFile(path)
    file.open()
    file.write([Record(f"key/{i}", b"a value to be found %d" % i, 7) for i in range(200)], [], 7)
    yield file
    file.close()


@pytest.fixture
def text_file(path: Path) -> Path:
    path.write_text("the quick brown fox jumps over the lazy dog\n" * 100)
    return path


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute(statement)
        connection.commit()


def assert_refused(path: Path, *words: str) -> None:
    before = path.read_bytes()
    with pytest.raises(MetadataUnusable) as refusal:
        MetadataFile(path).open()
    text = str(refusal.value)
    assert str(path) in text
    for word in words:
        assert word in text
    assert path.read_bytes() == before, "what is refused is left as it was"


def test_a_new_file_is_empty(path: Path) -> None:
    file = MetadataFile(path)
    assert file.open() == ([], 0)
    file.close()


def test_what_was_written_is_read(file: MetadataFile, path: Path) -> None:
    file.write([Record("b", b"\0\xff", 8), Record("key/3", b"new", 8)], ["key/0", "none"], 9)
    file.close()
    records, revision = MetadataFile(path).open()
    found = {record.key: record for record in records}
    assert found["b"] == Record("b", b"\0\xff", 8)
    assert found["key/3"] == Record("key/3", b"new", 8)
    assert "key/0" not in found
    assert len(found) == 200
    assert revision == 9


def test_a_write_that_fails_half_way_leaves_nothing_behind(file: MetadataFile, path: Path) -> None:
    no_text: Sequence[str] = [object()]  # type: ignore[list-item]
    with pytest.raises(MetadataUnavailable, match="cannot write"):
        file.write([Record("a", b"", 8)], ["key/0", *no_text], 8)
    file.write([Record("b", b"", 9)], [], 9)
    file.close()
    records, revision = MetadataFile(path).open()
    found = {record.key for record in records}
    assert {"key/0", "b"} < found
    assert "a" not in found
    assert revision == 9


def test_a_commit_waits_for_the_disk(file: MetadataFile) -> None:
    """A kill cannot show this, only a power cut: so look at what SQLite was told."""
    assert file._value("PRAGMA synchronous") == 2, "FULL"
    assert file._value("PRAGMA journal_mode") == "wal"
    assert file._value("PRAGMA locking_mode") == "exclusive"


def test_a_start_that_was_killed_half_way_is_taken_over(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    file = MetadataFile(path)
    assert file.open() == ([], 0)
    file.close()
    path.unlink()
    path.touch()
    assert file.open() == ([], 0)
    file.close()


def test_some_other_file_is_refused(text_file: Path) -> None:
    assert_refused(text_file, "is not a metadata file", "move it away")


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    edit(path, "CREATE TABLE music (title TEXT)")
    assert_refused(path, "another program", "move it away")


def test_a_newer_layout_is_refused(file: MetadataFile, path: Path) -> None:
    file.close()
    edit(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert_refused(path, f"newer Warren (layout {SCHEMA_VERSION + 1}", "start that version")


def test_a_damaged_page_is_refused(file: MetadataFile, path: Path) -> None:
    file.close()
    data = bytearray(path.read_bytes())
    page_bytes = 4096
    data[2 * page_bytes : 3 * page_bytes] = b"\xa5" * page_bytes
    path.write_bytes(data)
    assert_refused(path, "is corrupt", "backup")


def test_a_flipped_bit_in_a_value_is_refused(file: MetadataFile, path: Path) -> None:
    file.close()
    data = bytearray(path.read_bytes())
    found = re.search(rb"value to be found 77", data)
    assert found is not None
    data[found.start()] ^= 1
    path.write_bytes(data)
    assert_refused(path, "is corrupt (record 'key/77')", "backup")


def test_a_file_cut_short_is_refused(file: MetadataFile, path: Path) -> None:
    file.close()
    with path.open("r+b") as raw:
        raw.truncate(path.stat().st_size // 2)
    assert_refused(path, "is corrupt", "backup")


def test_a_database_open_elsewhere_is_refused(file: MetadataFile, path: Path) -> None:
    """Another program must not change the file behind the copy in memory, nor we behind it."""
    assert_refused(path, "open in another program")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        edit(path, "DELETE FROM records")


def test_a_file_that_vanished_is_not_made_anew_behind_the_copy(
    file: MetadataFile, path: Path
) -> None:
    file.close()
    path.unlink()
    with pytest.raises(MetadataUnavailable, match="unable to open"):
        file.write([Record("a", b"", 1)], [], 1)
    assert not path.exists()


def test_the_log_does_not_grow_for_ever(file: MetadataFile, path: Path) -> None:
    for revision in range(8, 400):
        file.write([Record("hot", b"x" * 20_000, revision)], [], revision)
    assert path.with_name("metadata.db-wal").stat().st_size < 20 * 1_048_576


# The lock.


async def test_two_stores_cannot_share_a_directory(path: Path) -> None:
    first, second = SqliteStore(path), SqliteStore(path)
    await first.open()
    with pytest.raises(
        MetadataUnusable, match=rf"{path.parent} is in use .* \(pid {os.getpid()}\)"
    ):
        await second.open()
    await first.close()
    third = SqliteStore(path)
    await third.open()
    await third.close()


def test_the_other_broker_is_named_and_its_death_frees_the_directory(tmp_path: Path) -> None:
    holding = (
        "import pathlib, sys, time; from warren.metadata.directory_lock import DirectoryLock;"
        "lock = DirectoryLock(pathlib.Path(sys.argv[1])); lock.acquire();"
        "print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", holding, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(MetadataUnusable, match=rf"pid {other.pid}\)"):
            DirectoryLock(tmp_path).acquire()
        other.kill()
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    assert (tmp_path / LOCK_NAME).read_text() == f"{os.getpid()}\n"
    lock.release()


async def test_a_store_that_could_not_open_holds_no_lock(text_file: Path) -> None:
    with pytest.raises(MetadataUnusable):
        await SqliteStore(text_file).open()
    DirectoryLock(text_file.parent).acquire()


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(MetadataUnusable, match=f"{missing}.*choose another"):
        await SqliteStore(missing / "metadata.db").open()
