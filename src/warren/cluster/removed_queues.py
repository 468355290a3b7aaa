"""Removed queues: from which revision of the store on nothing is left of a queue that was deleted.

A node says that it has applied a revision when its disk has none of the queues that the store had
removed by then (`server/topology_reports`). So a new queue of the same name may count on empty
disks at all nodes that have applied the removal of the last one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from warren.metadata.keys import KeyKind, parse_key, vhost_key
from warren.metadata.store import Change

REMOVED_MAX: Final = 4_096
"""Removed queues that are remembered by name; for others, the last one forgotten counts."""
_KINDS: Final = (KeyKind.QUEUE, KeyKind.VHOST)


class RemovedQueues:
    """`revision`: that of the store now; what was removed before is not known by name."""

    def __init__(self, revision: int) -> None:
        self._revisions: OrderedDict[str, int] = OrderedDict()
        self._forgotten = revision

    def note(self, changes: Sequence[Change], revision: int) -> set[str]:
        """Remember what a change of the store removed; return the virtual hosts of the queues."""
        vhosts = set()
        for change in changes:
            key = parse_key(change.key) if change.record is None else None
            if key is None or key.kind not in _KINDS:
                continue
            vhosts.add(key.parts[0])
            self._revisions[change.key] = revision
            self._revisions.move_to_end(change.key)
            if len(self._revisions) > REMOVED_MAX:
                _, forgotten = self._revisions.popitem(last=False)
                self._forgotten = max(self._forgotten, forgotten)
        return vhosts

    def revision_of(self, key: str) -> int | None:
        """Return when the last queue of that key was removed, or later; None if not known.

        It is not known in a virtual host that was removed itself, with all its files.
        """
        parsed = parse_key(key)
        if parsed is None or vhost_key(parsed.parts[0]) in self._revisions:
            return None
        return self._revisions.get(key, self._forgotten)
