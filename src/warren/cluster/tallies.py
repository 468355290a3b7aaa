"""How many connections and channels there are elsewhere, for limits that hold for a whole cluster.

Every node tells the others what it has itself: all of it when a link stands, and what has changed
since then, a little while after it did. So a limit can be overrun by those who come to different
nodes within that while, as in RabbitMQ; whoever comes later is refused. What a node told is
forgotten when its session ends, since its connections have ended too, or do not count: it can
neither confirm nor deliver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Final, TypeAlias

from warren.cluster.link.control import Counted

# So many always fit in a frame, however long their names.
COUNTS_PER_NEWS_MAX: Final = 1_024


class Scope(Enum):
    """What a limit is about; the name that goes with it is a virtual host's or a user's."""

    VHOST_CONNECTIONS = "vhost-connections"
    USER_CONNECTIONS = "user-connections"
    USER_CHANNELS = "user-channels"


Counts: TypeAlias = Counter[tuple[str, str]]


class Tallies:
    """`own` is what this node counts itself, by the value of a scope and a name."""

    def __init__(self, own: Counts) -> None:
        self._own = own
        self._others: dict[str, Counts] = {}
        self._changed: set[tuple[str, str]] = set()

    def elsewhere(self, scope: Scope, name: str) -> int:
        return sum(counts[scope.value, name] for counts in self._others.values())

    def heard(self, node: str, news: Counted) -> None:
        if news.is_whole:
            self._others[node] = Counter()
        counts = self._others.setdefault(node, Counter())
        for scope, name, count in news.counts:
            if count > 0:
                counts[scope, name] = count
            else:
                counts.pop((scope, name), None)

    def forget(self, node: str) -> None:
        self._others.pop(node, None)

    def changed(self, scope: Scope, name: str) -> bool:
        """Note it for the next news; True if it is the first since the last ones."""
        is_first = not self._changed
        self._changed.add((scope.value, name))
        return is_first

    def whole(self) -> list[Counted]:
        return [Counted(True, ()), *self._pieces(self._own)]

    def news(self) -> list[Counted]:
        """What has changed since the last time."""
        changed, self._changed = self._changed, set()
        return self._pieces(changed)

    def _pieces(self, keys: Iterable[tuple[str, str]]) -> list[Counted]:
        told = ((scope, name, self._own[scope, name]) for scope, name in keys)
        pieces = []
        while piece := tuple(islice(told, COUNTS_PER_NEWS_MAX)):
            pieces.append(Counted(False, piece))
        return pieces
