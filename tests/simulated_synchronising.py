"""What a simulated node does for the synchronisation of its mirrors, which is automatic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from warren.mirror.sync_pace import SyncSettings
from warren.mirror.synchroniser import SyncEvent

if TYPE_CHECKING:
    from simulated_node import SimReplica

BATCH: Final = 3


class SimSynchronising:
    is_sync_paused = False

    def __init__(self, part: SimReplica) -> None:
        self._part = part

    def now_ms(self) -> int:
        return int(self._part.schedule.now_ms)

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None:
        part = self._part

        def call() -> None:
            if not part.has_ended:
                part.node.when_running(do)

        part.schedule.after(delay_ms, call)

    def sync_settings(self) -> SyncSettings:
        return SyncSettings(batch_size=BATCH)

    def sync_told(self, event: SyncEvent) -> None:
        pass
