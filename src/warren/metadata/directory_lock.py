"""One broker per data directory: the second one is told who the first one is.

The lock is the kernel's (`flock`), so it ends with its process however that ends; the pid in the
file is only there for the message.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from warren.metadata.store import MetadataUnusable

LOCK_NAME: Final = "warren.lock"
_PID_BYTES_MAX: Final = 32


class DirectoryLock:
    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        assert self._descriptor is None, "a lock is acquired once"
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MetadataUnusable(
                f"cannot open {self._path}: {error.strerror}; "
                "make the data directory writable or choose another one"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, _PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise MetadataUnusable(
                f"the data directory {self._path.parent} is in use by another broker "
                f"(pid {holder or 'unknown'}); stop that one or choose another directory"
            ) from error
        self._descriptor = descriptor
        with suppress(OSError):  # a full disk: the lock holds, and others fail with more to say
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """The file stays: removing it would let two brokers lock two files of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
