"""The memory alarm: the process holds more than its share of the machine's memory.

Held is what the kernel counts (resident pages), not what Python believes to have allocated: it
is the kernel that ends processes. For the same reason "the machine" is whatever limit is lowest:
in a container that of a control group, which may be set on any level above our own.

The kernel also counts what we have freed, as long as the allocator keeps it for later. A queue of
large messages that was emptied would leave the alarm on for ever; so whenever there seems to be too
much, the allocator is asked to give back what it has to spare, and only the rest counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from warren.flow.alarms import AlarmBoard, Resource
from warren.flow.units import Absolute, Amount, Relative

CHECK_INTERVAL_MS: Final = 1_000
WATERMARK_DEFAULT: Final = Relative(0.4)
FRACTION_MAX: Final = 1.0
PAGING_RATIO_DEFAULT: Final = 0.5
PAGING_RATIO_OFF: Final = 1.0
"""A ratio above this turns paging off."""
NEVER_BYTES: Final = 1 << 62
"""More than any process holds."""
# What RabbitMQ supposes where the system does not say.
TOTAL_BYTES_UNKNOWN: Final = 1024**3

# Version 1 says "no limit" by a number near 2**63, rounded down to whole pages.
_CGROUP_UNLIMITED_FROM: Final = 2**60
_CGROUP_V1: Final = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
_CGROUP_V2: Final = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/unified", "memory.max"))


class MemoryMonitor:
    def __init__(
        self,
        board: AlarmBoard,
        node: str,
        total_bytes: int,
        read_used: Callable[[], int],
        give_back: Callable[[], None],
    ) -> None:
        self._board = board
        self._node = node
        self._read_used = read_used
        self._give_back = give_back
        self.total_bytes = total_bytes
        self.used_bytes = 0
        self.limit_bytes = total_bytes
        self.paging_ratio = PAGING_RATIO_DEFAULT

    @property
    def is_alarmed(self) -> bool:
        return self._board.is_set(self._node, Resource.MEMORY)

    @property
    def paging_bytes(self) -> int:
        """Bytes beyond which queues begin to move messages out of memory."""
        if self.paging_ratio > PAGING_RATIO_OFF:
            return NEVER_BYTES
        return int(self.paging_ratio * self.limit_bytes)

    def set_watermark(self, watermark: Amount) -> None:
        self.limit_bytes = watermark_bytes(watermark, self.total_bytes)

    def look(self, bound_bytes: int) -> int:
        """What is held; if that is more than the bound, without what need not be."""
        self.used_bytes = self._read_used()
        if self.used_bytes > bound_bytes:
            self._give_back()
            self.used_bytes = self._read_used()
        return self.used_bytes

    def check(self) -> bool:
        """Look, and set or clear the alarm; says whether that changed it. No hysteresis, as in
        RabbitMQ: between two checks lies a second."""
        was_alarmed = self.is_alarmed
        self.look(self.limit_bytes)
        if self.used_bytes > self.limit_bytes:
            self._board.set(self._node, Resource.MEMORY)
        else:
            self._board.clear(self._node, Resource.MEMORY)
        return self.is_alarmed != was_alarmed


def watermark_bytes(watermark: Amount, total_bytes: int) -> int:
    if isinstance(watermark, Absolute):
        return min(watermark.size_bytes, total_bytes)
    return int(min(watermark.fraction, FRACTION_MAX) * total_bytes)


def resident_bytes(statm: str, page_bytes: int) -> int:
    """From /proc/self/statm: the second number counts resident pages."""
    return int(statm.split()[1]) * page_bytes


def installed_bytes(meminfo: str) -> int | None:
    """From /proc/meminfo."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def cgroup_limit_files(own_cgroups: str) -> list[str]:
    """Files that may hold a limit of ours, given /proc/self/cgroup, from the inside out.

    A line is `hierarchy:controllers:path`. The path is as the host sees it; inside a container
    the group may be mounted as the root instead, so the root is always among the places to look.
    """
    files: list[str] = []
    for line in own_cgroups.splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            files += _files_up_to_root(*_CGROUP_V1, path)
        elif hierarchy == "0" and not controllers:
            for mount, name in _CGROUP_V2:
                files += _files_up_to_root(mount, name, path)
    return files


def _files_up_to_root(mount: str, name: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return ["/".join([mount, *parts[:depth], name]) for depth in range(len(parts), -1, -1)]


def cgroup_limit(content: str) -> int | None:
    """What such a file says; None for no limit."""
    text = content.strip()
    if not re.fullmatch(r"\d+", text) or int(text) >= _CGROUP_UNLIMITED_FROM:
        return None
    return int(text)


def usable_bytes(installed: int | None, cgroup_limits: Iterable[int | None]) -> int | None:
    """The lowest of what is known, None if nothing is."""
    return min((known for known in (installed, *cgroup_limits) if known is not None), default=None)
