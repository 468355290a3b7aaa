"""What every disk does, the faulty one included as long as nothing is scripted."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from faulty_disk import FaultyDisk
from warren.storage.disk.files import (
    PIECES_MAX,
    Disk,
    RealDisk,
    append_all,
    place_all,
    replace_file,
)

KINDS: dict[str, Callable[[], Disk]] = {"real": RealDisk, "faulty": FaultyDisk}


@pytest.fixture(params=sorted(KINDS))
def disk(request: pytest.FixtureRequest) -> Disk:
    return KINDS[request.param]()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_what_is_appended_is_read_back(disk: Disk, path: Path) -> None:
    descriptor = disk.open(path, create=True)
    assert disk.append(descriptor, [b"ab", memoryview(b"cd"), bytearray(b"ef")]) == 6
    disk.sync(descriptor)
    assert disk.read(descriptor, 0, 6) == b"abcdef"
    assert disk.read(descriptor, 2, 3) == b"cde"
    assert disk.size(path) == 6
    disk.close(descriptor)


def test_a_read_is_short_only_where_the_file_ends(disk: Disk, path: Path) -> None:
    path.write_bytes(b"abc")
    descriptor = disk.open(path)
    assert disk.read(descriptor, 1, 10) == b"bc"
    assert disk.read(descriptor, 3, 10) == b""
    assert disk.read(descriptor, 99, 10) == b""
    disk.close(descriptor)


def test_appends_go_to_the_end_whoever_made_it(disk: Disk, path: Path) -> None:
    one, two = disk.open(path, create=True), disk.open(path, create=True)
    disk.append(one, [b"a"])
    disk.append(two, [b"b"])
    disk.append(one, [b"c"])
    disk.truncate(two, 2)
    disk.append(one, [b"d"])
    assert path.read_bytes() == b"abd"
    disk.close(one)
    disk.close(two)


def test_opening_keeps_what_is_there(disk: Disk, path: Path) -> None:
    path.write_bytes(b"abc")
    descriptor = disk.open(path, create=True)
    disk.append(descriptor, [b"d"])
    disk.close(descriptor)
    assert path.read_bytes() == b"abcd"


def test_a_missing_file_is_not_made_unasked(disk: Disk, path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(path)
    with pytest.raises(FileNotFoundError):
        disk.size(path)
    with pytest.raises(FileNotFoundError):
        disk.unlink(path)
    assert not path.exists()


def test_names_come_in_order(disk: Disk, tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / name).touch()
    disk.unlink(tmp_path / "b")
    assert disk.list(tmp_path) == ["a", "c"]


def test_a_rename_replaces_and_descriptors_follow(disk: Disk, path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(b"old")
    descriptor = disk.open(path, create=True)
    disk.append(descriptor, [b"ne"])
    disk.rename(path, target)
    disk.append(descriptor, [b"w"])
    disk.sync(descriptor)
    disk.sync_directory(path.parent)
    disk.close(descriptor)
    assert disk.list(path.parent) == ["target"]
    assert target.read_bytes() == b"new"


def test_directories_are_made_with_their_parents_and_may_be_there(
    disk: Disk, tmp_path: Path
) -> None:
    disk.make_directory(tmp_path / "a" / "b")
    disk.make_directory(tmp_path / "a" / "b")
    disk.sync_directory(tmp_path / "a")
    assert disk.list(tmp_path / "a") == ["b"]
    disk.remove_directory(tmp_path / "a" / "b")
    assert disk.list(tmp_path / "a") == []


def test_a_directory_that_is_not_empty_is_not_removed(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory(tmp_path / "a")


def test_there_is_room(disk: Disk, tmp_path: Path) -> None:
    assert disk.free_bytes(tmp_path) > 0


def test_any_number_of_pieces_is_appended_in_full(disk: Disk, path: Path) -> None:
    descriptor = disk.open(path, create=True)
    pieces = [b"%d;" % number for number in range(2 * PIECES_MAX + 1)]
    append_all(disk, descriptor, [b"", *pieces, b""])
    disk.close(descriptor)
    assert path.read_bytes() == b"".join(pieces)


def test_what_is_placed_is_where_it_was_placed(disk: Disk, path: Path) -> None:
    """Over zeros, past them, and at the end, however many writes it takes."""
    descriptor = disk.create_ahead(path)
    place_all(disk, descriptor, 0, [b"head", bytes(10)])
    if isinstance(disk, FaultyDisk):
        disk.append_bytes_max = 3
    place_all(disk, descriptor, 4, [b"on", memoryview(b"e"), b"two"])
    disk.sync(descriptor)
    assert path.read_bytes() == b"headonetwo" + bytes(4)
    place_all(disk, descriptor, 10, [b"three", bytes(2)])
    assert path.read_bytes() == b"headonetwothree" + bytes(2)
    assert disk.read(descriptor, 4, 6) == b"onetwo"
    disk.truncate(descriptor, 15)
    assert disk.size(path) == 15
    disk.close(descriptor)


def test_replacing_a_file_leaves_nothing_else(disk: Disk, path: Path) -> None:
    replace_file(disk, path, [b"one"])
    path.with_name("file.draft").write_bytes(b"left by a crash, and longer")
    replace_file(disk, path, [b"t", b"wo"])
    assert path.read_bytes() == b"two"
    assert disk.list(path.parent) == ["file"]


def test_an_append_that_goes_nowhere_is_an_error(path: Path) -> None:
    disk = FaultyDisk()
    disk.append_bytes_max = 0
    descriptor = disk.open(path, create=True)
    with pytest.raises(OSError, match="takes nothing") as caught:
        append_all(disk, descriptor, [b"a"])
    assert caught.value.errno == errno.EIO
    disk.close(descriptor)
