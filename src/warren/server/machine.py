"""What the operating system says about memory and disks."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final

from warren.flow.memory import (
    cgroup_limit,
    cgroup_limit_files,
    installed_bytes,
    resident_bytes,
    usable_bytes,
)

_STATM: Final = Path("/proc/self/statm")
_MEMINFO: Final = Path("/proc/meminfo")
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")
_DESCRIPTORS: Final = "/proc/self/fd"
# What is said where there is no limit.
DESCRIPTORS_UNLIMITED: Final = 1_048_576
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Trimming takes the longer the more memory there is, and nothing else happens meanwhile.
TRIM_TIME_SHARE_MAX: Final = 0.02


def memory_used() -> int:
    """Resident bytes of this process; 0 where nobody says (no /proc), so no alarm comes of it."""
    statm = _read(_STATM)
    return resident_bytes(statm, _PAGE_BYTES) if statm else 0


def memory_total() -> int | None:
    """What this process may have: the machine's memory, or less inside a control group."""
    limits = [cgroup_limit(_read(Path(file))) for file in cgroup_limit_files(_read(_OWN_CGROUPS))]
    return usable_bytes(installed_bytes(_read(_MEMINFO)), limits)


def disk_free(path: Path) -> int:
    """Bytes an ordinary user can still write there. Raises OSError."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def descriptors_used() -> int:
    """Open files and sockets of this process; 0 where nobody says."""
    try:
        return len(os.listdir(_DESCRIPTORS))
    except OSError:
        return 0


def descriptors_max() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else DESCRIPTORS_UNLIMITED


class Trimming:
    """Has the C library's allocator return what it holds of freed memory, but not too often.

    Where there is no such function (it is glibc's), nothing happens.
    """

    def __init__(self) -> None:
        self._not_before_s = 0.0

    def __call__(self) -> None:
        began_s = time.monotonic()
        if began_s < self._not_before_s:
            return
        _trim()
        ended_s = time.monotonic()
        self._not_before_s = ended_s + (ended_s - began_s) / TRIM_TIME_SHARE_MAX


def _trim() -> None:
    # Imported here: most brokers never come near their limit.
    from ctypes import CDLL

    malloc_trim = getattr(CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def _read(path: Path) -> str:
    """Empty if it is not there: which of these files exist depends on the system."""
    try:
        return path.read_text()
    except OSError:
        return ""
