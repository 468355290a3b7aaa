"""The log of mirrored queues' groups: what happens is logged, told as events and counted.

Only the node that leads a queue does so. Every node reads every group's record; if each logged what
it read, the death of one node would be logged by all others, once for every queue.
"""

from __future__ import annotations

from warren.cluster.group_events import GroupEvents
from warren.cluster.view import ClusterView
from warren.model.logs import EventLog
from warren.model.records import QueueName, describe_queue
from warren.replication.group_changes import (
    Begun,
    GroupNews,
    InSyncChanged,
    MirrorAdded,
    MirrorDropped,
    Promoted,
    news_between,
)
from warren.replication.group_record import GroupRecord

_log = EventLog("mirror")


class GroupLog:
    def __init__(self, view: ClusterView, events: GroupEvents) -> None:
        self.promotions = 0
        """Mirrors of this node that became masters, since it started."""
        self.unsafe_promotions = 0
        self.messages_lost = 0
        """Messages lost by unsafe promotions, as far as the mirrors knew what they lacked."""
        self._view = view
        self._events = events

    def changed(
        self, name: QueueName, before: GroupRecord | None, after: GroupRecord, lacking: int | None
    ) -> None:
        """`lacking`: number of the former leader's messages that the copy here lacks, if known."""
        if not self._view.is_led_here(after):
            return
        queue = describe_queue(name[1], name[0])
        for news in news_between(before, after):
            if isinstance(news, Promoted):
                self._promoted(queue, news, lacking)
            else:
                _tell(queue, news, after.view)
            self._events.happened(name, news, after.view, lacking)

    def removed(self, name: QueueName, before: GroupRecord) -> None:
        if self._view.is_led_here(before):
            _log.info("queue is not mirrored any more", queue=describe_queue(name[1], name[0]))
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
