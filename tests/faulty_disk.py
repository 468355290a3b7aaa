"""A disk that fails by script, and that can lose power.

Files are real, so readers see what was written. Beside them the disk remembers what a platter would
not have yet: of each file the part not synced, of each directory the names not synced. `crash`
makes of the files what a machine would find after a power cut, in the worst way that
`storage/disk/files.py` allows:

* of what was appended since the last sync of a file, any part is there: cut off at a random byte,
  or in full length but zero in random pages, or zero from a random byte on;
* of what was placed over zeros since then, any part is zero again, in the same ways;
* a truncation that was not synced may not have happened;
* what a *failed* sync should have written is zero, whatever later syncs said;
* of the names made, changed and removed in a directory since it was synced, the first few are as
  they should be and the rest as they were; directories do this independently of each other.

One seed always gives the same crash. After it every call but `close` fails with EIO; tests go on
with a new disk on the same files. `crash_before` cuts the power at a given change, so that a test
can run a procedure once to learn how many there are (`changes`) and then crash before each in turn.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from warren.storage.disk.files import Buffer, Location, Names, RealDisk

PAGE_BYTES: Final = 4_096


@dataclass(slots=True)
class Fault:
    """Lets `times` calls of `operation` fail, of those on names that end with `suffix`."""

    operation: str
    code: int
    times: int
    suffix: str


@dataclass(slots=True, eq=False)
class FileState:
    """What is not safe of one file; it follows the file through its renames."""

    path: Path
    safe_bytes: int
    lost: list[tuple[int, int]] = field(default_factory=list)  # dropped by failed syncs
    placed: list[tuple[int, int]] = field(default_factory=list)  # over zeros that are safe
    cut: bytes | None = None  # what a truncation not yet synced took off the safe part

    def after_crash(self, content: bytes, dice: random.Random) -> bytes:
        safe = content[: self.safe_bytes]
        if self.cut is not None and dice.random() < 0.5:
            survivor = bytearray(safe + self.cut)
        else:
            survivor = bytearray(safe + _torn(content[self.safe_bytes :], len(safe), dice))
        for start, end in self.placed:
            torn = _torn(content[start:end], start, dice)
            survivor[start:end] = torn + bytes(end - start - len(torn))
        for start, end in self.lost:
            survivor[start:end] = bytes(max(0, min(end, len(survivor)) - start))
        return bytes(survivor)


def _torn(tail: bytes, offset: int, dice: random.Random) -> bytes:
    """What may be left of bytes that were written at `offset` but not synced."""
    kept = dice.randint(0, len(tail))
    way = dice.choice(["cut", "zero after", "zero pages"])
    if way == "cut":
        return tail[:kept]
    if way == "zero after":
        return tail[:kept] + bytes(len(tail) - kept)
    pages = bytearray(tail)
    start = 0
    while start < len(tail):
        end = min(len(tail), start + PAGE_BYTES - (offset + start) % PAGE_BYTES)
        if dice.random() < 0.5:
            pages[start:end] = bytes(end - start)
        start = end
    return bytes(pages)


class FaultyDisk(RealDisk):
    def __init__(self, seed: int = 0) -> None:
        self.changes: list[str] = []  # "operation name" of all calls that change the disk
        self.sync_delay_s = 0.0
        self.room_bytes: int | None = None  # what may still be appended before ENOSPC
        self.append_bytes_max: int | None = None  # appends beyond this are short
        self.is_crashed = False
        self._dice = random.Random(seed)
        self._faults: list[Fault] = []
        self._crash_at: int | None = None
        self._lock = threading.RLock()
        self._files: dict[Path, FileState] = {}
        self._open: dict[int, FileState] = {}
        self._undo: dict[Path, list[Callable[[], object]]] = {}  # by directory, oldest first

    # The script.

    def fail(self, operation: str, code: int = errno.EIO, *, times: int = 1, on: str = "") -> None:
        """Let the next calls of `operation` on names that end with `on` fail."""
        assert hasattr(RealDisk, operation)
        self._faults.append(Fault(operation, code, times, on))

    def crash_before(self, change: int) -> None:
        """Lose power instead of doing this change (counted from 0, as in `changes`)."""
        self._crash_at = change

    def mend(self) -> None:
        """Forget what of the script has not happened yet."""
        self._faults.clear()
        self._crash_at = None

    def flip_bit(self, path: Location, offset: int, bit: int = 0) -> None:
        content = bytearray(Path(path).read_bytes())
        content[offset] ^= 1 << bit
        Path(path).write_bytes(content)

    def crash(self) -> None:
        """Lose power now."""
        with self._lock:
            if self.is_crashed:
                return
            self.is_crashed = True
            for path in sorted(self._files):
                content = path.read_bytes()
                survivor = self._files[path].after_crash(content, self._dice)
                if survivor != content:
                    path.write_bytes(survivor)
            for directory in sorted(self._undo):  # parents first: one that goes takes all with it
                self._lose_names(directory)

    # Files.

    def open(self, path: Location, *, create: bool = False) -> int:
        path = Path(path)
        is_new = create and not path.exists()
        with self._call("open", path, is_change=is_new):
            descriptor = super().open(path, create=create)
            self._open[descriptor] = self._state(path)
            if is_new:
                self._on_crash(path, lambda: path.unlink(missing_ok=True))
            return descriptor

    def append(self, descriptor: int, pieces: Sequence[Buffer]) -> int:
        with self._call("append", self._open[descriptor].path):
            data = b"".join(pieces)[: self.append_bytes_max]
            if self.room_bytes is not None:
                if data and not self.room_bytes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                data = data[: self.room_bytes]
                self.room_bytes -= len(data)
            return super().append(descriptor, [data])

    def create_ahead(self, path: Location) -> int:
        path = Path(path)
        is_new = not path.exists()
        with self._call("open", path, is_change=is_new):
            descriptor = super().create_ahead(path)
            self._open[descriptor] = self._state(path)
            if is_new:
                self._on_crash(path, lambda: path.unlink(missing_ok=True))
            return descriptor

    def place(self, descriptor: int, offset: int, pieces: Sequence[Buffer]) -> int:
        state = self._open[descriptor]
        with self._call("place", state.path):
            length = os.fstat(descriptor).st_size
            data = b"".join(pieces)[: self.append_bytes_max]
            assert offset <= length, "no gaps"
            over = os.pread(descriptor, len(data), offset)
            assert not any(over), "only zeros are written over"
            if self.room_bytes is not None:
                if len(data) > len(over) and not self.room_bytes + len(over):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                data = data[: len(over) + self.room_bytes]
                self.room_bytes -= max(0, len(data) - len(over))
            went = super().place(descriptor, offset, [data])
            if offset < state.safe_bytes:
                state.placed.append((offset, min(offset + went, state.safe_bytes)))
            return went

    def sync(self, descriptor: int) -> None:
        state = self._open[descriptor]
        placed = state.placed[:]
        length = os.fstat(descriptor).st_size  # what comes while it syncs is not covered
        if self.sync_delay_s:
            time.sleep(self.sync_delay_s)
        try:
            with self._call("sync", state.path):
                state.safe_bytes = min(length, os.fstat(descriptor).st_size)
                state.cut = None
                state.placed = state.placed[len(placed) :]
        except OSError:
            state.lost += placed
            if length > state.safe_bytes:
                state.lost.append((state.safe_bytes, length))
            raise

    def truncate(self, descriptor: int, size: int) -> None:
        state = self._open[descriptor]
        with self._call("truncate", state.path):
            if size < state.safe_bytes:
                taken = os.pread(descriptor, state.safe_bytes - size, size)
                state.cut = taken + (state.cut or b"")
                state.safe_bytes = size
            state.lost = [(start, min(end, size)) for start, end in state.lost if start < size]
            state.placed = [(start, min(end, size)) for start, end in state.placed if start < size]
            if self.room_bytes is not None:
                self.room_bytes += max(0, os.fstat(descriptor).st_size - size)
            super().truncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        with self._lock:
            super().close(descriptor)
            del self._open[descriptor]

    def read(self, descriptor: int, offset: int, size: int) -> bytes:
        with self._call("read", self._open[descriptor].path, is_change=False):
            return os.pread(descriptor, size, offset)

    def size(self, path: Location) -> int:
        with self._call("size", Path(path), is_change=False):
            return super().size(path)

    def free_bytes(self, path: Location) -> int:
        with self._call("free_bytes", Path(path), is_change=False):
            return super().free_bytes(path) if self.room_bytes is None else self.room_bytes

    # Names.

    def list(self, path: Location) -> Names:
        with self._call("list", Path(path), is_change=False):
            return super().list(path)

    def unlink(self, path: Location) -> None:
        path = Path(path)
        with self._call("unlink", path):
            resurrect = self._burial(path)
            super().unlink(path)
            self._on_crash(path, resurrect)

    def rename(self, source: Location, target: Location) -> None:
        source, target = Path(source), Path(target)
        assert source.parent == target.parent, "across directories a crash may lose it or double it"
        with self._call("rename", source):
            moved = self._state(source)
            resurrect = self._burial(target) if target.exists() else None
            super().rename(source, target)
            del self._files[source]
            moved.path = target
            self._files[target] = moved

            def undo() -> None:
                if target.exists():
                    os.replace(target, source)
                if resurrect is not None:
                    resurrect()

            self._on_crash(source, undo)

    def make_directory(self, path: Location) -> None:
        path = Path(path)
        with self._call("make_directory", path):
            missing = [p for p in (path, *path.parents) if not p.exists()]
            super().make_directory(path)
            for made in reversed(missing):
                self._on_crash(made, lambda made=made: shutil.rmtree(made))  # type: ignore[misc]

    def remove_directory(self, path: Location) -> None:
        path = Path(path)
        with self._call("remove_directory", path):
            super().remove_directory(path)
            self._on_crash(path, path.mkdir)

    def sync_directory(self, path: Location) -> None:
        with self._call("sync_directory", Path(path)):
            self._undo.pop(Path(path), None)

    # What is behind it.

    @contextmanager
    def _call(self, operation: str, path: Path, *, is_change: bool = True) -> Iterator[None]:
        with self._lock:
            if is_change and len(self.changes) == self._crash_at:
                self.crash()
            if self.is_crashed:
                raise OSError(errno.EIO, "the power is off")
            if is_change:
                self.changes.append(f"{operation} {path.name}")
            for fault in self._faults:
                if fault.operation == operation and path.name.endswith(fault.suffix):
                    fault.times -= 1
                    if not fault.times:
                        self._faults.remove(fault)
                    raise OSError(fault.code, os.strerror(fault.code), str(path))
            yield

    def _state(self, path: Path) -> FileState:
        """Made when a file is first seen: all that is in it then is safe."""
        if path not in self._files:
            self._files[path] = FileState(path, path.stat().st_size)
        return self._files[path]

    def _burial(self, path: Path) -> Callable[[], object]:
        """Forget a file that loses its name; returns what brings back what a crash left of it."""
        state = self._state(path)
        content = path.read_bytes()
        del self._files[path]
        return lambda: path.write_bytes(state.after_crash(content, self._dice))

    def _on_crash(self, path: Path, undo: Callable[[], object]) -> None:
        self._undo.setdefault(path.parent, []).append(undo)

    def _lose_names(self, directory: Path) -> None:
        changes = self._undo[directory]
        kept = self._dice.randint(0, len(changes))
        for undo in reversed(changes[kept:]):
            if directory.exists():
                undo()
