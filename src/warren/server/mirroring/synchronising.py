"""What the synchronisation of one queue's mirrors needs of the node that leads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from warren.config.settings import Config
from warren.flow.alarms import Resource
from warren.flow.units import parse_size
from warren.mirror.master import MasterBacking
from warren.mirror.stream_copier import StreamCopier
from warren.mirror.stream_master import StreamMaster
from warren.mirror.sync_pace import SyncSettings
from warren.mirror.synchroniser import SyncEvent, Synchroniser
from warren.model.logs import EventLog
from warren.policy.wanted_copies import Mirroring, mirroring_of

if TYPE_CHECKING:
    from warren.server.mirroring.replica_host import ReplicaOfNode

_log = EventLog("mirror")


def throughput_of(config: Config) -> int:
    """Bytes per second. A value that makes no sense is no limit, as RabbitMQ has it."""
    try:
        return parse_size(config.sync_max_throughput)
    except ValueError as error:
        _log.warning("mirroring_sync_max_throughput is ignored", reason=error)
        return 0


class SyncOfQueue:
    """The `SyncHost` of a queue that this node leads."""

    def __init__(self, host: ReplicaOfNode, master: MasterBacking) -> None:
        self._host = host
        self._context = host.mirrors.context
        self.synchroniser: Synchroniser | StreamCopier = (
            StreamCopier(master, self)
            if isinstance(master, StreamMaster)
            else Synchroniser(master, self)
        )

    def consider(self) -> None:
        mirroring = self._mirroring
        is_automatic = mirroring is not None and mirroring.is_sync_automatic
        is_moving = self._host.mirrors.relocations.is_wanted(self._host.name)
        self.synchroniser.consider(is_automatic or is_moving)

    @property
    def _mirroring(self) -> Mirroring | None:
        return mirroring_of(self._host.policy, self._context.config.sync_batch_size)

    @property
    def is_sync_paused(self) -> bool:
        resources = self._context.brake.board.resources
        return Resource.MEMORY in resources or not self._host.replica.has_room

    @property
    def is_sync_blocking(self) -> bool:
        return self._context.config.sync_is_blocking

    def now_ms(self) -> int:
        return self._context.clock.now_ms()

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if delay_ms:
            loop.call_later(delay_ms / 1000, do)
        else:
            loop.call_soon(do)

    def sync_settings(self) -> SyncSettings:
        mirroring = self._mirroring
        default = self._context.config.sync_batch_size
        batch_size = default if mirroring is None else mirroring.sync_batch_size
        return SyncSettings(batch_size, self._host.mirrors.sync_bytes_per_s)

    def caught_up(self, member: str, kept: int, sent: int) -> None:
        _log.info(
            "mirror has caught up",
            queue=str(self._host),
            mirror=member,
            messages_kept=kept,
            messages_sent=sent,
        )

    def sync_told(self, event: SyncEvent) -> None:
        synchroniser = self.synchroniser
        if self.is_sync_blocking:
            self._host.replica.block(synchroniser.is_syncing)
        self._host.mirrors.group_events.synchronising(self._host.name, event, synchroniser)
        _log.info(
            f"synchronisation: {event.value}",
            queue=str(self._host),
            messages=synchroniser.sent_count,
            mirrors=",".join(synchroniser.lacking_mirrors),
        )
