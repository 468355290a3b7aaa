"""Synchronisation of a queue's mirrors: what it needs of the node that leads the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from warren.cluster.effects import Effects
from warren.cluster.group_events import GroupEvents
from warren.model.limits import MIRROR_TIMEOUT_MS
from warren.model.logs import EventLog
from warren.model.records import QueueName, describe_queue
from warren.policy.wanted_copies import Mirroring
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.sync_pace import SyncSettings
from warren.replication.classic.synchroniser import SyncEvent, Synchroniser
from warren.replication.replica import Replica
from warren.replication.stream.copier import StreamCopier
from warren.replication.stream.stream_master import StreamMaster

_log = EventLog("mirror")


class SyncSurroundings(Protocol):
    """Conditions of the node on which synchronisation depends."""

    @property
    def is_memory_short(self) -> bool: ...

    def now_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SyncTerms:
    """Settings of the node: `mirroring_sync_*` and `warren.mirror_timeout`."""

    batch_size: int
    bytes_per_s: int
    """0: as fast as mirrors take it."""
    is_blocking: bool
    """The queue waits while its mirrors are synchronised, as RabbitMQ's does."""
    mirror_timeout_ms: int = MIRROR_TIMEOUT_MS
    """A mirror that could not be reached for so long is expelled."""


class Synchronisation:
    """The `SyncHost` of a queue that this node leads. `mirroring` returns the wanted copies."""

    def __init__(
        self,
        name: QueueName,
        replica: Replica,
        mirroring: Callable[[], Mirroring | None],
        node: SyncOfNode,
    ) -> None:
        self._name = name
        self._replica = replica
        self._mirroring = mirroring
        self._node = node
        self.synchroniser: Synchroniser | StreamCopier

    def begin(self, master: MasterBacking) -> None:
        self.synchroniser = (
            StreamCopier(master, self)
            if isinstance(master, StreamMaster)
            else Synchroniser(master, self)
        )

    @property
    def lacks_some(self) -> bool:
        """True if mirrors lack messages, are not being synchronised, and nobody cancelled it."""
        return self.synchroniser.is_wanting

    @property
    def is_sync_paused(self) -> bool:
        return self._node.around.is_memory_short or not self._replica.has_room

    @property
    def is_sync_blocking(self) -> bool:
        return self._node.terms.is_blocking

    def now_ms(self) -> int:
        return self._node.around.now_ms()

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None:
        self._node.effects.call_later(delay_ms, do)

    def sync_settings(self) -> SyncSettings:
        mirroring, terms = self._mirroring(), self._node.terms
        batch_size = terms.batch_size if mirroring is None else mirroring.sync_batch_size
        return SyncSettings(batch_size, terms.bytes_per_s)

    def caught_up(self, member: str, kept: int, sent: int) -> None:
        _log.info(
            "mirror has caught up",
            queue=describe_queue(self._name[1], self._name[0]),
            mirror=member,
            messages_kept=kept,
            messages_sent=sent,
        )

    def sync_told(self, event: SyncEvent) -> None:
        synchroniser = self.synchroniser
        if self.is_sync_blocking:
            self._replica.block(synchroniser.is_syncing)
        self._node.events.synchronising(self._name, event, synchroniser)
        _log.info(
            f"synchronisation: {event.value}",
            queue=describe_queue(self._name[1], self._name[0]),
            messages=synchroniser.sent_count,
            mirrors=",".join(synchroniser.lacking_mirrors),
        )


@dataclass(frozen=True, slots=True)
class SyncOfNode:
    """Parts that the synchronisations of all queues of a node share."""

    terms: SyncTerms
    around: SyncSurroundings
    effects: Effects
    events: GroupEvents
