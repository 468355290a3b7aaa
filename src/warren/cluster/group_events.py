"""Events about mirrored queues' groups for clients: `warren.mirror.*` and `warren.sync.*`."""

from __future__ import annotations

from typing import Final

from warren.broker.events import NOBODY, EventBus, Properties
from warren.model.records import QueueName
from warren.replication.classic.synchroniser import SyncEvent, Synchroniser
from warren.replication.group_changes import (
    Begun,
    GroupNews,
    InSyncChanged,
    MirrorAdded,
    MirrorDropped,
    Promoted,
)
from warren.replication.group_record import node_of
from warren.replication.stream.copier import StreamCopier

NOT_KNOWN: Final = -1


class GroupEvents:
    """`events` is the bus of this node."""

    def __init__(self, events: EventBus) -> None:
        self._events = events

    def happened(self, name: QueueName, news: GroupNews, view: int, lacking: int | None) -> None:
        """As for `GroupLog.changed`."""
        match news:
            case Begun():
                self._tell("mirror.begun", name, {})
            case MirrorAdded(node):
                self._tell("mirror.added", name, {"mirror": node, "view": view})
            case MirrorDropped(node):
                self._tell("mirror.dropped", name, {"mirror": node, "view": view})
            case InSyncChanged(nodes):
                mirrors = ",".join(sorted(nodes))
                about: Properties = {"mirrors": mirrors, "count": len(nodes), "view": view}
                self._tell("mirror.insync", name, about)
            case Promoted():
                self._promoted(name, news, lacking)

    def ended(self, name: QueueName) -> None:
        self._tell("mirror.ended", name, {})

    def synchronising(
        self, name: QueueName, event: SyncEvent, synchroniser: Synchroniser | StreamCopier
    ) -> None:
        lacking = synchroniser.lacking_counts
        about: Properties = {
            "messages": synchroniser.sent_count,
            "left": max(lacking.values(), default=0),
            "mirrors": ",".join(map(node_of, synchroniser.lacking_mirrors)),
        }
        self._tell(f"sync.{event.value}", name, about)

    def _promoted(self, name: QueueName, news: Promoted, lacking: int | None) -> None:
        lost = 0 if news.is_safe else NOT_KNOWN if lacking is None else lacking
        about: Properties = {
            "master": news.node,
            "master_before": news.before,
            "epoch": news.epoch,
            "is_safe": news.is_safe,
            "lost": lost,
        }
        self._tell("mirror.promoted", name, about)

    def _tell(self, event: str, name: QueueName, about: Properties) -> None:
        vhost, queue = name
        told = {"node": self._events.node_name, "vhost": vhost, "queue": queue, **about}
        self._events.tell(f"warren.{event}", lambda: told, NOBODY)
