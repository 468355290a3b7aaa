"""The disk alarm: too little room is left where the data directory is.

A disk can be filled at hundreds of megabytes a second, and a full one may cost more than a pause:
so the next look comes the sooner the closer free space is to the limit, as if somebody were writing
at FAST_BYTES_PER_MS from now on; twice as long as that would take is still in time, since most
of it never happens. With the alarm set publishers are held, and looking can take its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.flow.alarms import AlarmBoard, Resource
from warren.flow.units import Absolute, Amount

LIMIT_DEFAULT: Final = Absolute(50_000_000)
FAST_BYTES_PER_MS: Final = 250_000
CHECK_INTERVAL_MS_MIN: Final = 100
CHECK_INTERVAL_MS_MAX: Final = 10_000
# A file system that does not answer is asked again; after that the monitor stays off.
RETRY_INTERVAL_MS: Final = 120_000
RETRIES_MAX: Final = 10


class DiskMonitor:
    def __init__(self, board: AlarmBoard, node: str, read_free: Callable[[], int]) -> None:
        """`read_free` may raise OSError."""
        self._board = board
        self._node = node
        self._read_free = read_free
        self.free_bytes: int | None = None
        self.limit_bytes = LIMIT_DEFAULT.size_bytes
        self.failure: OSError | None = None
        self.failures = 0

    @property
    def is_alarmed(self) -> bool:
        return self._board.is_set(self._node, Resource.DISK)

    @property
    def retries_left(self) -> int:
        return max(0, RETRIES_MAX + 1 - self.failures)

    @property
    def is_off(self) -> bool:
        """Given up: nothing is known about the disk, and no alarm comes from here."""
        return self.retries_left == 0

    def set_limit(self, limit: Amount, total_memory_bytes: int) -> None:
        self.limit_bytes = disk_limit_bytes(limit, total_memory_bytes)

    def check(self) -> bool:
        """Look, and set or clear the alarm; says whether that changed it."""
        was_alarmed = self.is_alarmed
        try:
            self.free_bytes = self._read_free()
        except OSError as error:
            self.free_bytes = None
            self.failure = error
            self.failures += 1
            return False
        self.failure = None
        self.failures = 0
        if self.free_bytes < self.limit_bytes:
            self._board.set(self._node, Resource.DISK)
        else:
            self._board.clear(self._node, Resource.DISK)
        return self.is_alarmed != was_alarmed

    @property
    def next_check_ms(self) -> int:
        if self.free_bytes is None:
            return RETRY_INTERVAL_MS
        if self.is_alarmed:
            return CHECK_INTERVAL_MS_MAX
        return check_interval_ms(self.free_bytes - self.limit_bytes)


def check_interval_ms(room_bytes: int) -> int:
    ideal_ms = 2 * room_bytes // FAST_BYTES_PER_MS
    return max(CHECK_INTERVAL_MS_MIN, min(CHECK_INTERVAL_MS_MAX, ideal_ms))


def disk_limit_bytes(limit: Amount, total_memory_bytes: int) -> int:
    if isinstance(limit, Absolute):
        return limit.size_bytes
    return round(limit.fraction * total_memory_bytes)
