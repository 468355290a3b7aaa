"""Kept copies: those of mirrored queues that this node has and that take no part in their groups.

They are what the disk had at the start, or what a mirror had that was expelled because it could
not be reached. As long as the group's record calls this node's copy recoverable it is one: of that
very group, though behind. It may be asked to go on as a mirror, and is when it is the best that is
left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from warren.model.records import QueueName
from warren.replication.group_record import GroupRecord, node_of


class Deletable(Protocol):
    """The files of one level of a copy, or of a stream's."""

    def delete(self) -> None: ...


Levels: TypeAlias = Mapping[int, Deletable]


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
        """Take out the copy of this group; one of another group is deleted, and nothing found."""
        of_group, levels = self._copies.pop(name, ("", {}))
        if of_group == uid:
            return levels
        delete(levels)
        return {}

    def changed(self, name: QueueName, group: GroupRecord | None) -> None:
        """Delete the copy if the group's record, which has changed, does not count on it."""
        kept = self._copies.get(name)
        if kept is not None and not (
            group is not None and group.uid == kept[0] and self.is_recoverable(group)
        ):
            del self._copies[name]
            delete(kept[1])


def delete(levels: Levels) -> None:
    for level in levels.values():
        level.delete()
