"""A disk in memory for fuzz targets that read whole files: as quick as the readers themselves."""

from __future__ import annotations

from collections.abc import Sequence

from warren.storage.disk.files import Buffer, Location, RealDisk


class MemoryDisk(RealDisk):
    """Has the files that it was given; what is done to names and directories has no effect."""

    def __init__(self, files: dict[Location, bytes]) -> None:
        self._files = {path: bytearray(content) for path, content in files.items()}
        self._opened: list[bytearray] = []

    def open(self, path: Location, *, create: bool = False) -> int:
        if path not in self._files:
            if not create:
                raise FileNotFoundError(path)
            self._files[path] = bytearray()
        self._opened.append(self._files[path])
        return len(self._opened) - 1

    def append(self, descriptor: int, pieces: Sequence[Buffer]) -> int:
        octets = b"".join(pieces)
        self._opened[descriptor] += octets
        return len(octets)

    def sync(self, descriptor: int) -> None:
        """Memory is as safe as it gets."""

    def truncate(self, descriptor: int, size: int) -> None:
        content = self._opened[descriptor]
        content[size:] = bytes(max(0, size - len(content)))

    def close(self, descriptor: int) -> None:
        """Descriptors are not used again."""

    def read(self, descriptor: int, offset: int, size: int) -> bytes:
        return bytes(self._opened[descriptor][offset : offset + size])

    def size(self, path: Location) -> int:
        return len(self._files[path])

    def list(self, path: Location) -> list[str]:
        return sorted(str(name).rpartition("/")[2] for name in self._files)
