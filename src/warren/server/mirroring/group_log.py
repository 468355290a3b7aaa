"""What happens to mirrored queues, told to log and bus and counted: by who leads a queue, alone.

Every node reads every group's record. If each told what it read, a node that dies would be told of
by all others once for every queue.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.mirror.group_record import GroupRecord
from warren.mirror.group_sight import (
    Begun,
    GroupNews,
    InSyncChanged,
    MirrorAdded,
    MirrorDropped,
    Promoted,
    news_between,
)
from warren.model.logs import EventLog
from warren.server.mirroring.group_events import GroupEvents
from warren.server.mirroring.replica_host import QueueName

_log = EventLog("mirror")


class GroupLog:
    """`leads(record)` says whether this node does, in this life."""

    def __init__(self, leads: Callable[[GroupRecord], bool], events: GroupEvents) -> None:
        self.promotions = 0
        """Of mirrors of this node, since it started."""
        self.unsafe_promotions = 0
        self.messages_lost = 0
        """By unsafe promotions, as far as the mirrors knew what they lacked."""
        self._leads = leads
        self._events = events

    def changed(
        self, name: QueueName, before: GroupRecord | None, after: GroupRecord, lacking: int | None
    ) -> None:
        """`lacking`: how many messages of the leader before the copy here has not, if known."""
        if not self._leads(after):
            return
        queue = f"queue '{name[1]}' in vhost '{name[0]}'"
        for news in news_between(before, after):
            if isinstance(news, Promoted):
                self._promoted(queue, news, lacking)
            else:
                _tell(queue, news, after.view)
            self._events.happened(name, news, after.view, lacking)

    def removed(self, name: QueueName, before: GroupRecord) -> None:
        if self._leads(before):
            _log.info("queue is not mirrored any more", queue=f"'{name[1]}' in vhost '{name[0]}'")
            self._events.ended(name)

    def _promoted(self, queue: str, news: Promoted, lacking: int | None) -> None:
        if news.is_safe and news.before == news.node:
            _log.info("master is back", queue=queue, epoch=news.epoch)
            return
        self.promotions += 1
        facts = {"queue": queue, "epoch": news.epoch, "master_before": news.before}
        if news.is_safe:
            _log.info("mirror is promoted", **facts)
            return
        self.unsafe_promotions += 1
        self.messages_lost += lacking or 0
        lost = "not known" if lacking is None else lacking
        _log.warning("unsynchronised mirror is promoted: messages are lost", **facts, lost=lost)


def _tell(queue: str, news: GroupNews, view: int) -> None:
    match news:
        case Begun():
            _log.info("queue is mirrored", queue=queue)
        case MirrorAdded(node):
            _log.info("mirror is added", queue=queue, node=node, view=view)
        case MirrorDropped(node):
            _log.info("mirror is dropped", queue=queue, node=node, view=view)
        case InSyncChanged(nodes):
            _log.info("copies in sync", queue=queue, nodes=",".join(sorted(nodes)), view=view)
