"""Disks that misbehave under a metadata store: slow, full, lying."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from metadata_reading import contents
from warren.metadata.sqlite import SqliteStore
from warren.metadata.sqlite_file import MetadataFile
from warren.metadata.store import MetadataUnavailable, Record


class HeldFile(MetadataFile):
    """A disk that takes its time: writes wait until `free` is set. Remembers what it wrote."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.free = threading.Event()
        self.is_broken = False
        self.writes: list[int] = []

    def write(self, puts: Sequence[Record], deletes: Sequence[str], revision: int) -> None:
        assert self.free.wait(30)
        if self.is_broken:
            raise MetadataUnavailable("disk I/O error")
        super().write(puts, deletes, revision)
        self.writes.append(len(puts) + len(deletes))


class LyingFile(MetadataFile):
    """The worst kind of failure: reported, yet all of it is on the disk."""

    is_lying = False

    def write(self, puts: Sequence[Record], deletes: Sequence[str], revision: int) -> None:
        super().write(puts, deletes, revision)
        if self.is_lying:
            self.close()
            raise MetadataUnavailable("disk I/O error")


@contextmanager
def no_file_may_grow_beyond(size_bytes: int) -> Iterator[None]:
    """A real failure of real writes, as a quota or a full disk makes them fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def reopened(path: Path) -> dict[str, bytes]:
    store = SqliteStore(path)
    await store.open()
    found = await contents(store)
    await store.close()
    return found


async def abandon(store: SqliteStore) -> None:
    """Let go of the file as a crash does: without waiting for anything or mending it."""
    await asyncio.get_running_loop().run_in_executor(store._writer, store._file.close)
    store._let_go()
