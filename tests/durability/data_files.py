"""A broker's data directory seen from outside: which files there are, and what is in them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

EMPTY_FILE_BYTES_MAX: Final = 64
VHOST_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def base_36(digest: bytes) -> str:
    number, digits = int.from_bytes(digest), ""
    while number:
        number, digit = divmod(number, 36)
        digits = VHOST_ALPHABET[digit] + digits
    return digits


def vhost_directory(data_dir: Path, vhost: str = "/") -> Path:
    name = base_36(hashlib.md5(vhost.encode()).digest())
    return data_dir / "msg_stores" / "vhosts" / name


def queue_directory(data_dir: Path, queue: str, vhost: str = "/") -> Path:
    name = base_36(hashlib.md5(f"queue{vhost}{queue}".encode()).digest())
    return vhost_directory(data_dir, vhost) / "queues" / name


class DataFiles:
    """The message files of a vhost."""

    def __init__(self, data_dir: Path, vhost: str = "/") -> None:
        self._data_dir = data_dir
        self.directory = vhost_directory(data_dir, vhost)

    def _found(self, pattern: str) -> list[Path]:
        """Oldest first, by number: `2.rdq` before `10.rdq`."""
        found = [path for path in self.directory.rglob(pattern) if path.is_file()]
        return sorted(found, key=lambda path: (path.parent, len(path.stem), path.stem))

    @property
    def journals(self) -> list[Path]:
        return self._found("*.jif")

    @property
    def segments(self) -> list[Path]:
        return self._found("*.idx")

    @property
    def bodies(self) -> list[Path]:
        """Those of the persistent store that hold something; some may be ready for later."""
        return [path for path in self.all_bodies if path.parent.name == "msg_store_persistent"]

    @property
    def all_bodies(self) -> list[Path]:
        """Of the transient store, too."""
        return [p for p in self._found("*.rdq") if exists_with(p, EMPTY_FILE_BYTES_MAX)]

    @property
    def index(self) -> list[Path]:
        return self.journals + self.segments

    def segments_of(self, queue: str) -> list[Path]:
        directory = queue_directory(self._data_dir, queue)
        return [path for path in self.segments if path.parent == directory]

    def names(self) -> list[str]:
        """Of all files, and nothing of what is in them."""
        return sorted(str(path) for path in self.directory.rglob("*"))

    def total_bytes(self) -> int:
        """Disk in use: a file with holes counts for what it occupies."""
        return sum(size for path in self._found("*") if (size := occupied_bytes(path)))

    def live_journal(self) -> Path:
        """The one that was written last."""
        return max(self.journals, key=lambda path: path.stat().st_mtime_ns)


def exists_with(path: Path, more_than_bytes: int) -> bool:
    try:
        return path.stat().st_size > more_than_bytes
    except FileNotFoundError:
        return False  # gone since it was listed


def occupied_bytes(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0  # gone since it was listed


def size_bytes(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def holder_of(paths: list[Path], piece: bytes) -> Path:
    return next(path for path in paths if piece in path.read_bytes())


def occurrences(paths: list[Path], piece: bytes) -> int:
    """How often these files hold these bytes."""
    return sum(path.read_bytes().count(piece) for path in paths)


def end_of_data(path: Path) -> int:
    """Where the zeros begin that space was reserved with, or the end of the file."""
    return len(path.read_bytes().rstrip(b"\0"))


def snapshot(directory: Path) -> dict[str, str]:
    """What is in each file that has to last; the metadata have their own tests."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and not path.name.startswith(("metadata.sqlite", "warren.lock"))
        and path.parent.name != "msg_store_transient"
    }
