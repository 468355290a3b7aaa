"""Files that the others speak of are missing: nothing is changed, and it is said what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from index_world import IndexWorld
from warren.storage.index.completeness import FilesMissing

Choose = Callable[[Path], list[Path]]


async def filled(directory: Path) -> IndexWorld:
    """Stopped, with messages in three segments, the message store and two journal files."""
    world = IndexWorld(directory)
    await world.open()
    for _ in range(5_000):
        world.publish()
    await world.shorten_journal()
    world.publish(body=bytes(5_000))
    await world.index._chores.scatter.roll()
    world.publish(body=b"last")
    await world.close()
    return world


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def total(world: IndexWorld) -> int:
    return sum(queue.count for queue in (await world.open()).values())


def obey(message: str) -> None:
    for path in message.rpartition("remove ")[2].split(" and "):
        Path(path).unlink()


def files(pattern: str) -> Choose:
    return lambda directory: sorted(directory.rglob(pattern))


MISSING: dict[str, Choose] = {
    "a segment": files("1.idx"),
    "all segments": files("*.idx"),
    "the store": files("msg_store_persistent/*.rdq"),
    "a journal file": lambda directory: sorted((directory / "journal").iterdir())[:1],
    "the current journal file": lambda directory: sorted((directory / "journal").iterdir())[-1:],
    "the journal": files("*.jif"),
}


@pytest.mark.parametrize("kind", list(MISSING))
async def test_a_missing_file_is_named_and_nothing_is_changed(tmp_path: Path, kind: str) -> None:
    directory = (await filled(tmp_path / "vhost")).directory
    taken = {path: path.read_bytes() for path in MISSING[kind](directory)}
    assert taken
    for path in taken:
        path.unlink()
    before = content(directory)
    with pytest.raises(FilesMissing) as refusal:
        await IndexWorld(directory).open()
    assert any(name in str(refusal.value) for path in taken for name in (str(path), "*.jif"))
    assert content(directory) == before
    for path, data in taken.items():
        path.write_bytes(data)
    again = IndexWorld(directory)
    assert await total(again) == 5_002
    await again.close()


@pytest.mark.parametrize(
    ("kind", "left"),
    [("a segment", 2_954), ("the store", 5_001), ("the journal", 5_000)],
)
async def test_doing_as_it_says_starts_with_what_is_left(
    tmp_path: Path, kind: str, left: int
) -> None:
    directory = (await filled(tmp_path / "vhost")).directory
    for path in MISSING[kind](directory):
        path.unlink()
    with pytest.raises(FilesMissing) as refusal:
        await IndexWorld(directory).open()
    obey(str(refusal.value))
    again = IndexWorld(directory)
    assert await total(again) == left
    await again.close()


async def test_a_journal_that_was_never_filled_is_missed_as_well(tmp_path: Path) -> None:
    """A vhost that is too young for a checkpoint."""
    world = IndexWorld(tmp_path / "vhost")
    await world.open()
    world.publish()
    await world.index.flush()
    await world.abandon()
    for path in (world.directory / "journal").iterdir():
        path.unlink()
    with pytest.raises(FilesMissing, match=r"journal.*remove .*\.vhost$"):
        await IndexWorld(world.directory).open()


async def test_what_was_deleted_in_good_order_is_not_missed(tmp_path: Path) -> None:
    """Segments and bodies that went after the last checkpoint, and then a crash."""
    world = IndexWorld(tmp_path / "vhost")
    await world.open()
    small = [world.publish() for _ in range(3_000)]
    large = [world.publish(body=bytes(5_000)) for _ in range(100)]
    await world.shorten_journal()
    world.queue().ack(small + large)
    await world.house_is_kept()
    assert not list(world.directory.rglob("*.idx"))
    await world.abandon()
    again = IndexWorld(world.directory)
    assert await total(again) == 0
    await again.close()
