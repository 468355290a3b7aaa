"""The alarms of this node: looks at memory and disk from time to time, and logs what changes.

`set_memory_watermark` and `set_disk_free_limit` act at once and are forgotten with the process, as
rabbitmqctl's commands of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.config.settings import Config
from warren.flow import disk, memory
from warren.flow.alarms import AlarmBoard, AlarmChange
from warren.flow.disk import DiskMonitor
from warren.flow.memory import MemoryMonitor
from warren.flow.units import Amount, Relative, amount
from warren.model.clock import Clock, TimerHandle
from warren.model.logs import EventLog
from warren.server import machine

REFUSAL_CHECK_MS: Final = 1_000

_log = EventLog("alarm")


class NodeAlarms:
    def __init__(self, config: Config, board: AlarmBoard, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._memory_timer: TimerHandle | None = None
        self._disk_timer: TimerHandle | None = None
        self.board = board
        total_bytes = self._read_total()
        if total_bytes is None:
            total_bytes = memory.TOTAL_BYTES_UNKNOWN
            _log.warning("total memory is unknown", assumed_bytes=total_bytes)
        self.memory = MemoryMonitor(
            board, config.name, total_bytes, machine.memory_used, machine.Trimming()
        )
        self.memory.paging_ratio = config.memory_paging_ratio
        # Whether the disk refuses what is written to it, which the message storage knows first.
        self.is_disk_refusing: Callable[[], bool] = lambda: False
        self.disk = DiskMonitor(board, config.name, self._disk_free)
        board.listeners.append(self._log_change)

    def start(self) -> None:
        """By the configuration, and in silence as long as all is well. The data directory must be
        there."""
        config = self._config
        watermark = amount(
            config.memory_watermark, config.memory_watermark_bytes, memory.WATERMARK_DEFAULT
        )
        self._use_watermark(watermark)
        limit = amount(config.disk_free_limit, config.disk_free_limit_bytes, disk.LIMIT_DEFAULT)
        self.disk.set_limit(limit, self.memory.total_bytes)
        self._check_memory()
        self._check_disk()

    def stop(self) -> None:
        for timer in (self._memory_timer, self._disk_timer):
            if timer is not None:
                timer.cancel()

    def set_memory_watermark(self, watermark: Amount) -> None:
        """Use another watermark from now on, of the memory that there is now."""
        self._read_total_again()
        self._use_watermark(watermark)
        _log.info(
            "memory high watermark set",
            limit_bytes=self.memory.limit_bytes, total_bytes=self.memory.total_bytes,
        )  # fmt: skip
        self._check_memory()

    def set_disk_free_limit(self, limit: Amount) -> None:
        self._read_total_again()
        self.disk.set_limit(limit, self.memory.total_bytes)
        _log.info("disk free limit set", limit_bytes=self.disk.limit_bytes)
        self._check_disk()

    def _read_total(self) -> int | None:
        return self._config.memory_total_override or machine.memory_total()

    def _read_total_again(self) -> None:
        """Memory may have been added or taken away: containers and virtual machines are resized."""
        before, now = self.memory.total_bytes, self._read_total()
        if now is not None and now != before:
            self.memory.total_bytes = now
            _log.info("total memory has changed", total_bytes=now, before_bytes=before)

    def _use_watermark(self, watermark: Amount) -> None:
        if isinstance(watermark, Relative) and watermark.fraction > memory.FRACTION_MAX:
            _log.warning(
                "memory high watermark is above the allowed maximum",
                watermark=watermark.fraction, used=memory.FRACTION_MAX,
            )  # fmt: skip
        self.memory.set_watermark(watermark)

    def disk_refused(self) -> None:
        """Something could not be written: do not wait for the next look."""
        self._check_disk()

    def _disk_free(self) -> int:
        """A disk that takes nothing has no room, whatever the file system says."""
        return 0 if self.is_disk_refusing() else machine.disk_free(self._config.data_dir)

    def _check_memory(self) -> None:
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        if self.memory.check():
            _log.info(
                f"vm_memory_high_watermark {'set' if self.memory.is_alarmed else 'clear'}",
                used_bytes=self.memory.used_bytes, allowed_bytes=self.memory.limit_bytes,
            )  # fmt: skip
        self._memory_timer = self._clock.call_later(memory.CHECK_INTERVAL_MS, self._check_memory)

    def _check_disk(self) -> None:
        if self._disk_timer is not None:
            self._disk_timer.cancel()
        if self.disk.check():
            _log.info(
                f"free disk space is {'insufficient' if self.disk.is_alarmed else 'sufficient'}",
                free_bytes=self.disk.free_bytes, limit_bytes=self.disk.limit_bytes,
            )  # fmt: skip
        elif self.disk.failure is not None:
            _log.error(
                "free disk space cannot be read",
                error=self.disk.failure, retries_left=self.disk.retries_left,
            )  # fmt: skip
        if not self.disk.is_off:
            wait_ms = REFUSAL_CHECK_MS if self.is_disk_refusing() else self.disk.next_check_ms
            self._disk_timer = self._clock.call_later(wait_ms, self._check_disk)

    def _log_change(self, change: AlarmChange) -> None:
        resource, node = change.alarm.resource.value, change.alarm.node
        if change.is_set:
            _log.warning(
                f"{resource} resource limit alarm set on node {node}. "
                "Publishers will be blocked until this alarm clears"
            )
            return
        _log.warning(f"{resource} resource limit alarm cleared on node {node}")
        if change.is_last:
            _log.warning(f"{resource} resource limit alarm cleared across the cluster")
