"""Copies of mirrored queues that this node has and that take no part in their groups at the moment.

They are what the disk had at the start, or what a mirror had that was put out because it could not
be reached. As long as the group's record calls this node's copy recoverable it is one: of that very
group, though behind. It may be asked to go on as a mirror, and is when it is the best that is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from warren.mirror.group_record import GroupRecord, node_of
from warren.server.mirroring.replica_host import QueueName
from warren.storage.variable_queue import VariableQueue

Levels: TypeAlias = Mapping[int, VariableQueue]


class KeptCopies:
    def __init__(self, node: str) -> None:
        self._node = node
        self._copies: dict[QueueName, tuple[str, Levels]] = {}

    def is_recoverable(self, group: GroupRecord | None) -> bool:
        return group is not None and (
            self._node in group.recoverable or self._node in map(node_of, group.insync)
        )

    def keep(self, name: QueueName, uid: str, levels: Levels) -> None:
        if levels:
            self._copies[name] = (uid, levels)

    def names(self) -> list[QueueName]:
        return list(self._copies)

    def take(self, name: QueueName, uid: str) -> Levels:
        """Nothing if there is none of this group."""
        of_group, levels = self._copies.pop(name, ("", {}))
        if of_group == uid:
            return levels
        delete(levels)
        return {}

    def changed(self, name: QueueName, group: GroupRecord | None) -> None:
        """What is known of its group: a copy that nobody counts on goes."""
        kept = self._copies.get(name)
        if kept is not None and not (
            group is not None and group.uid == kept[0] and self.is_recoverable(group)
        ):
            del self._copies[name]
            delete(kept[1])


def delete(levels: Levels) -> None:
    for level in levels.values():
        level.delete()
