"""What the operating system says about memory and disks."""

from __future__ import annotations

import os
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
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


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


def _read(path: Path) -> str:
    """Empty if it is not there: which of these files exist depends on the system."""
    try:
        return path.read_text()
    except OSError:
        return ""
