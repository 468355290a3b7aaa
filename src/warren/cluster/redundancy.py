"""Redundancy of queues: how many copies each should have, and how many there are in sync.

Everything that tells of missing copies (API, page, `list_queues`, metrics, health checks, the log)
asks `standing_of`, so that all of them say the same. `wanted_count` is the one place that says how
many copies a queue should have:

    ha-mode all          as many as the cluster has members, running or not
    ha-mode exactly N    N, also if the cluster has fewer members: that is what was asked for
    ha-mode nodes        as many as there are names
    quorum queues        their group size, or as many as an operator chose nodes
    otherwise            one

A copy counts if it is in sync and its node runs. The queue is down if no running node is its
master.

`Redundancy` keeps what is not whole, so that nobody has to visit all queues to learn it. A change
of the store touches the queues that it is about, or all of them if it is about a node or a policy;
touched queues are looked at again a slice at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from itertools import islice
from typing import Final, NamedTuple

from warren.cluster.view import ClusterView
from warren.metadata.keys import KeyKind, parse_key
from warren.metadata.store import Change
from warren.model.records import QueueName, QueueRecord
from warren.policy.wanted_copies import Mirroring, MirrorMode

# About a millisecond of work.
LOOKED_AT_ONCE_MAX: Final = 50

_OF_ONE_QUEUE: Final = frozenset({KeyKind.QUEUE, KeyKind.GROUP, KeyKind.CHOSEN_NODES})
_OF_ALL_QUEUES: Final = frozenset(
    {
        KeyKind.NODE,
        KeyKind.MEMBER,
        KeyKind.POLICY,
        KeyKind.OPERATOR_POLICY,
        KeyKind.VHOST,
    }
)


class Standing(NamedTuple):
    """Copies of one queue: how many are wanted, and how many are in sync on nodes that run."""

    wanted: int
    synchronised: int
    is_down: bool = False

    @property
    def is_whole(self) -> bool:
        return self.synchronised >= self.wanted and not self.is_down

    @property
    def missing(self) -> int:
        return max(0, self.wanted - self.synchronised)


def wanted_count(mirroring: Mirroring | None, member_count: int) -> int:
    """Return how many copies a queue should have, in a cluster of so many members."""
    if mirroring is None:
        return 1
    if mirroring.mode is MirrorMode.ALL:
        return max(1, member_count)
    if mirroring.mode is MirrorMode.EXACTLY:
        return max(1, mirroring.count)
    return len(set(mirroring.nodes))


def standing_of(view: ClusterView, record: QueueRecord, member_count: int) -> Standing:
    mirroring = None if record.exclusive else view.mirroring_of(record)
    wanted = wanted_count(mirroring, member_count)
    master = view.master_of(record)
    is_down = master != view.name and master not in view.sessions
    group = view.group_of((record.vhost, record.name))
    if group is None:
        return Standing(wanted, int(not is_down), is_down)
    synchronised = [m for m in group.live if m.id in group.insync and view.is_alive(m)]
    return Standing(wanted, len(synchronised), is_down)


class Redundancy:
    """Queues of the cluster that are not whole. `members` returns all members, running or not."""

    def __init__(self, view: ClusterView, members: Callable[[], Sized]) -> None:
        self.lacking: dict[QueueName, Standing] = {}
        """Queues that are down or have too few synchronised copies, as of the last look."""
        self.change_count = 0
        """Grows whenever `lacking` changes."""
        self._view = view
        self._members = members
        self._touched: dict[QueueName, None] = {}
        self._is_all_touched = True

    def store_changed(self, changes: Sequence[Change]) -> None:
        """Note what has to be looked at again; the view has the change already."""
        for change in changes:
            key = parse_key(change.key)
            if key is None or self._is_all_touched:
                continue
            if key.kind in _OF_ALL_QUEUES:
                self._is_all_touched = True
            elif key.kind in _OF_ONE_QUEUE:
                self._touched[key.parts[0], key.parts[1]] = None

    def standing_of(self, record: QueueRecord) -> Standing:
        return standing_of(self._view, record, len(self._members()))

    def look(self, count_max: int = LOOKED_AT_ONCE_MAX) -> bool:
        """Look at so many touched queues; False if others are left."""
        if self._is_all_touched:
            self._is_all_touched = False
            self._touched = dict.fromkeys((*self.lacking, *self._view.topology.names()))
        for name in tuple(islice(self._touched, count_max)):
            del self._touched[name]
            self._look_at(name)
        return not self._touched

    def _look_at(self, name: QueueName) -> None:
        record, before = self._view.topology.record_of(name), self.lacking.get(name)
        standing = None if record is None else self.standing_of(record)
        if standing is None or standing.is_whole:
            self.lacking.pop(name, None)
            self.change_count += before is not None
        elif standing != before:
            self.lacking[name] = standing
            self.change_count += 1
