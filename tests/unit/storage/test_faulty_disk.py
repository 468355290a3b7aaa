"""The disk that fails must fail as told: tests of recovery are worth what it is worth."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faulty_disk import PAGE_BYTES, FaultyDisk
from warren.storage.disk.files import append_all, place_all, replace_file

SEEDS = range(200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def named(disk: FaultyDisk, path: Path, content: bytes = b"") -> int:
    """A file whose name and first content are safe."""
    descriptor = disk.open(path, create=True)
    append_all(disk, descriptor, [content])
    disk.sync(descriptor)
    disk.sync_directory(path.parent)
    return descriptor


def crashes(directory: Path) -> Iterator[tuple[FaultyDisk, Path]]:
    """A disk of every seed, each with a path of its own."""
    for seed in SEEDS:
        (directory / str(seed)).mkdir()
        yield FaultyDisk(seed), directory / str(seed) / "file"


def test_what_was_synced_survives_and_the_rest_is_torn(tmp_path: Path) -> None:
    survivors = set()
    tail = b"x" * 3 * PAGE_BYTES
    for disk, path in crashes(tmp_path):
        descriptor = named(disk, path, b"safe")
        disk.append(descriptor, [tail])
        disk.crash()
        disk.close(descriptor)
        content = path.read_bytes()
        assert content.startswith(b"safe")
        assert len(content) <= 4 + len(tail)
        assert set(content[4:]) <= {0, ord("x")}
        survivors.add(content[4:])
    assert len(survivors) > len(SEEDS) // 2
    assert any(0 in content and not content.endswith(b"\0") for content in survivors)


def test_what_was_placed_and_not_synced_is_zero_again_in_any_part(tmp_path: Path) -> None:
    """What is before it in the same page, and the zeros behind it, are as they were."""
    survivors = set()
    record = b"x" * 3 * PAGE_BYTES
    for disk, path in crashes(tmp_path):
        descriptor = disk.create_ahead(path)
        place_all(disk, descriptor, 0, [b"safe", bytes(4 * PAGE_BYTES)])
        disk.sync(descriptor)
        disk.sync_directory(path.parent)
        place_all(disk, descriptor, 4, [record])
        disk.crash()
        disk.close(descriptor)
        content = path.read_bytes()
        assert content[:4] == b"safe"
        assert len(content) == 4 + 4 * PAGE_BYTES
        assert set(content[4 : 4 + len(record)]) <= {0, ord("x")}
        assert not any(content[4 + len(record) :])
        survivors.add(content)
    assert len(survivors) > len(SEEDS) // 2


def test_what_was_placed_is_safe_once_it_is_synced_and_not_if_that_fails(tmp_path: Path) -> None:
    for disk, path in crashes(tmp_path):
        descriptor = disk.create_ahead(path)
        place_all(disk, descriptor, 0, [bytes(100)])
        disk.sync(descriptor)
        disk.sync_directory(path.parent)
        place_all(disk, descriptor, 0, [b"one"])
        disk.sync(descriptor)
        place_all(disk, descriptor, 3, [b"two"])
        disk.fail("sync")
        with pytest.raises(OSError, match="error"):
            disk.sync(descriptor)
        disk.sync(descriptor)  # says that all is well, and is wrong
        place_all(disk, descriptor, 6, [b"three"])
        disk.sync(descriptor)
        disk.crash()
        disk.close(descriptor)
        assert path.read_bytes() == b"one" + bytes(3) + b"three" + bytes(89)


def test_only_zeros_are_written_over(path: Path) -> None:
    disk = FaultyDisk()
    descriptor = disk.create_ahead(path)
    place_all(disk, descriptor, 0, [b"one", bytes(3)])
    with pytest.raises(AssertionError, match="only zeros"):
        disk.place(descriptor, 2, [b"two"])
    disk.close(descriptor)


def test_a_full_disk_takes_what_is_placed_over_zeros(path: Path) -> None:
    disk = FaultyDisk()
    descriptor = disk.create_ahead(path)
    place_all(disk, descriptor, 0, [bytes(5)])
    disk.room_bytes = 2
    assert disk.place(descriptor, 0, [b"abc"]) == 3
    assert disk.place(descriptor, 3, [b"defghi"]) == 4, "two over zeros, and two of room"
    with pytest.raises(OSError, match="No space") as caught:
        disk.place(descriptor, 7, [b"hi"])
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"abcdefg"
    disk.close(descriptor)


def test_everything_synced_survives_untouched(tmp_path: Path) -> None:
    for disk, path in crashes(tmp_path):
        descriptor = named(disk, path, b"one")
        disk.truncate(descriptor, 1)
        disk.append(descriptor, [b"ther"])
        disk.sync(descriptor)
        disk.crash()
        disk.close(descriptor)
        assert path.read_bytes() == b"other"


def test_a_name_is_lost_unless_its_directory_was_synced(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        descriptor = disk.open(path, create=True)
        disk.append(descriptor, [b"content"])
        disk.sync(descriptor)
        disk.crash()
        disk.close(descriptor)
        outcomes.add(path.read_bytes() if path.exists() else None)
    assert outcomes == {b"content", None}


def test_names_are_lost_from_the_last_on(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        for name in "abc":
            disk.close(disk.open(path.with_name(name), create=True))
        disk.crash()
        outcomes.add("".join(sorted(p.name for p in path.parent.iterdir())))
    assert outcomes == {"", "a", "ab", "abc"}


def test_an_unlinked_file_may_be_back(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        path.write_bytes(b"old")
        disk.unlink(path)
        disk.crash()
        outcomes.add(path.read_bytes() if path.exists() else None)
    assert outcomes == {b"old", None}


def test_an_unlinked_file_that_comes_back_lacks_what_was_not_synced(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        descriptor = named(disk, path, b"safe")
        disk.append(descriptor, [b"x" * 10])
        disk.close(descriptor)
        disk.unlink(path)
        disk.crash()
        if path.exists():
            outcomes.add(path.read_bytes())
    assert all(content.startswith(b"safe") for content in outcomes)
    assert len(outcomes) > 5


def test_replacing_a_file_gives_the_old_or_the_new_one_wherever_power_is_lost(
    tmp_path: Path,
) -> None:
    def replace(disk: FaultyDisk, path: Path) -> None:
        replace_file(disk, path, [b"new" * 5_000])

    path = tmp_path / "rehearsal"
    path.write_bytes(b"old")
    rehearsal = FaultyDisk()
    replace(rehearsal, path)
    outcomes = set()
    for disk, path in crashes(tmp_path):
        path.write_bytes(b"old")
        step = disk._dice.randrange(len(rehearsal.changes))
        disk.crash_before(step)
        with pytest.raises(OSError, match="power"):
            replace(disk, path)
        outcomes.add(path.read_bytes())
    assert outcomes == {b"old", b"new" * 5_000}


def test_replacing_without_a_sync_is_caught(tmp_path: Path) -> None:
    """The classic mistake: write, rename, and hope."""
    outcomes = set()
    for disk, path in crashes(tmp_path):
        path.write_bytes(b"old")
        descriptor = disk.open(path.with_name("draft"), create=True)
        disk.append(descriptor, [b"new"])
        disk.close(descriptor)
        disk.rename(path.with_name("draft"), path)
        disk.crash()
        outcomes.add(path.read_bytes())
    assert outcomes - {b"old", b"new"}


def test_a_truncation_may_not_have_happened(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        descriptor = named(disk, path, b"abcdef")
        disk.truncate(descriptor, 4)
        disk.truncate(descriptor, 2)
        disk.append(descriptor, [b"X"])
        disk.crash()
        disk.close(descriptor)
        outcomes.add(path.read_bytes())
    assert outcomes == {b"abcdef", b"ab", b"abX", b"ab\0"}


def test_a_directory_not_synced_into_its_parent_is_lost_with_all_in_it(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        inner = path.parent / "inner"
        disk.make_directory(inner)
        disk.close(named(disk, inner / "file", b"content"))
        disk.crash()
        outcomes.add((inner / "file").exists())
    assert outcomes == {True, False}


def test_a_removed_directory_may_be_back_with_what_was_in_it(tmp_path: Path) -> None:
    outcomes = set()
    for disk, path in crashes(tmp_path):
        inner = path.parent / "inner"
        inner.mkdir()
        (inner / "file").write_bytes(b"content")
        disk.unlink(inner / "file")
        disk.remove_directory(inner)
        disk.crash()
        outcomes.add((inner.exists(), (inner / "file").exists()))
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_after_a_failed_sync_a_good_one_proves_nothing(tmp_path: Path) -> None:
    for disk, path in crashes(tmp_path):
        descriptor = named(disk, path, b"safe")
        disk.append(descriptor, [b"lost"])
        disk.fail("sync")
        with pytest.raises(OSError, match="Input/output"):
            disk.sync(descriptor)
        disk.append(descriptor, [b"kept"])
        disk.sync(descriptor)
        assert path.read_bytes() == b"safelostkept"  # the page cache still has it
        disk.crash()
        disk.close(descriptor)
        assert path.read_bytes() == b"safe\0\0\0\0kept"


def test_the_same_seed_gives_the_same_crash(tmp_path: Path) -> None:
    def survivor(path: Path) -> bytes:
        disk = FaultyDisk(seed=7)
        descriptor = named(disk, path, b"safe")
        disk.append(descriptor, [b"x" * 100_000])
        disk.crash()
        disk.close(descriptor)
        return path.read_bytes()

    assert survivor(tmp_path / "a") == survivor(tmp_path / "b")


def test_after_a_crash_nothing_works_but_closing(path: Path) -> None:
    disk = FaultyDisk()
    descriptor = named(disk, path)
    disk.crash()
    calls: list[Callable[[], object]] = [
        lambda: disk.append(descriptor, [b"x"]),
        lambda: disk.sync(descriptor),
        lambda: disk.read(descriptor, 0, 1),
        lambda: disk.open(path),
        lambda: disk.list(path.parent),
    ]
    for call in calls:
        with pytest.raises(OSError, match="power is off"):
            call()
    disk.close(descriptor)


def test_a_full_disk_takes_what_fits_then_nothing_until_there_is_room(path: Path) -> None:
    disk = FaultyDisk()
    descriptor = named(disk, path)
    disk.room_bytes = 5
    with pytest.raises(OSError, match="space") as caught:
        append_all(disk, descriptor, [b"abc", b"defg"])
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"abcde"
    assert disk.free_bytes(path.parent) == 0
    disk.room_bytes = None
    append_all(disk, descriptor, [b"fg"])
    disk.close(descriptor)
    assert path.read_bytes() == b"abcdefg"


def test_short_writes_lose_nothing(path: Path) -> None:
    disk = FaultyDisk()
    disk.append_bytes_max = 3
    descriptor = named(disk, path)
    append_all(disk, descriptor, [b"abcd", b"", b"e", b"fghijk"])
    disk.close(descriptor)
    assert path.read_bytes() == b"abcdefghijk"


def test_faults_strike_the_named_file_as_often_as_told(tmp_path: Path) -> None:
    disk = FaultyDisk()
    other, victim = named(disk, tmp_path / "0.idx"), named(disk, tmp_path / "0.jif")
    disk.fail("append", errno.ENOSPC, times=2, on=".jif")
    disk.append(other, [b"x"])
    for _ in range(2):
        with pytest.raises(OSError, match="space"):
            disk.append(victim, [b"x"])
    assert disk.append(victim, [b"x"]) == 1
    disk.close(other)
    disk.close(victim)


def test_a_slow_sync_is_slow(path: Path) -> None:
    disk = FaultyDisk()
    descriptor = named(disk, path)
    disk.sync_delay_s = 0.05
    start = time.monotonic()
    disk.sync(descriptor)
    assert time.monotonic() - start >= 0.05
    disk.close(descriptor)


def test_a_flipped_bit_is_the_only_change(path: Path) -> None:
    disk = FaultyDisk()
    disk.close(named(disk, path, b"\x00\x00\x00"))
    disk.flip_bit(path, 1, 3)
    assert path.read_bytes() == b"\x00\x08\x00"


def test_changes_are_counted_and_looking_is_not(path: Path) -> None:
    disk = FaultyDisk()
    descriptor = named(disk, path, b"a")
    disk.read(descriptor, 0, 1)
    disk.size(path)
    disk.close(descriptor)
    disk.close(disk.open(path))
    assert disk.changes == [
        "open file",
        "append file",
        "sync file",
        f"sync_directory {path.parent.name}",
    ]
