"""What a simulated node does for the synchronisation of its mirrors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from warren.mirror.sync_pace import SyncSettings
from warren.mirror.synchroniser import SyncEvent

if TYPE_CHECKING:
    from cluster_simulation.copy_of_node import SimCopy

BATCH: Final = 3


class SimSynchronising:
    is_sync_paused = False
    is_sync_blocking = False

    def __init__(self, copy: SimCopy) -> None:
        self._copy = copy

    def now_ms(self) -> int:
        return self._copy.schedule.now_us // 1_000

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None:
        self._copy.later(delay_ms * 1_000, do)

    def sync_settings(self) -> SyncSettings:
        return SyncSettings(batch_size=BATCH)

    def sync_told(self, event: SyncEvent) -> None:
        pass

    def caught_up(self, member: str, kept: int, sent: int) -> None:
        self._copy.world.kept_count += kept
