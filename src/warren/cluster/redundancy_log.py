"""The log of redundancy: which queues lost copies that are wanted, and which regained them.

The master's node logs it, so that the death of one node is not logged by all others. A queue that
has no master is logged by the running node whose name sorts first. A queue is logged if two looks
in a row find it lacking, so that one that has just been declared, or whose master moves, is not.
When thousands of queues lose a copy at once, there is one line with their number for each look.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from warren.cluster.redundancy import Redundancy
from warren.cluster.view import ClusterView
from warren.model.logs import EventLog
from warren.model.records import QueueName, describe_queue

# More queues than that at one look are logged in one line.
LINES_MAX: Final = 10
_NAMED_MAX: Final = 3

_log = EventLog("mirror")


class RedundancyLog:
    def __init__(self, view: ClusterView, redundancy: Redundancy) -> None:
        self._view = view
        self._redundancy = redundancy
        self._seen: set[QueueName] = set()
        """Queues that were lacking at the last look, and are this node's to log."""
        self._told: set[QueueName] = set()
        self._change_count = -1

    def look(self) -> None:
        """Log what is different since the last look; to be called about once per second."""
        redundancy = self._redundancy
        if self._change_count == redundancy.change_count and self._seen == self._told:
            return
        self._change_count = redundancy.change_count
        mine = {name for name in redundancy.lacking if self._is_ours(name)}
        lost = (mine & self._seen) - self._told
        is_left = self._view.topology.record_of
        regained = [
            name
            for name in self._told
            if name not in redundancy.lacking and is_left(name) is not None
        ]
        self._seen = mine
        self._told = (self._told & mine) | lost
        self._tell_lost(sorted(lost))
        _tell_regained(sorted(regained))

    def _is_ours(self, name: QueueName) -> bool:
        record = self._view.topology.record_of(name)
        master = "" if record is None else self._view.master_of(record)
        if master in self._view.sessions or master == self._view.name:
            return master == self._view.name
        return self._view.running_nodes[0] == self._view.name

    def _tell_lost(self, names: Collection[QueueName]) -> None:
        lacking = self._redundancy.lacking
        if len(names) > LINES_MAX:
            down = sum(lacking[name].is_down for name in names)
            _log.warning("queues lack copies", count=len(names), down=down, first=_first(names))
            return
        for name in names:
            _log.warning(
                "queue lacks copies",
                queue=describe_queue(name[1], name[0]),
                synchronised=lacking[name].synchronised,
                wanted=lacking[name].wanted,
                state="down" if lacking[name].is_down else "running",
            )


def _tell_regained(names: Collection[QueueName]) -> None:
    if len(names) > LINES_MAX:
        _log.info("queues have all copies again", count=len(names), first=_first(names))
        return
    for name in names:
        _log.info("queue has all copies again", queue=describe_queue(name[1], name[0]))


def _first(names: Collection[QueueName]) -> str:
    return ", ".join(describe_queue(name, vhost) for vhost, name in list(names)[:_NAMED_MAX])
