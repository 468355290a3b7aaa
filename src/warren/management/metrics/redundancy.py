"""Metrics of redundancy: members, queues and copies that are missing.

Figures of the whole cluster begin with `rabbitmq_cluster_`: every node tells the same, so a query
takes the maximum of the nodes, not the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.cluster.redundancy import Standing
from warren.management.metrics.exposition import (
    GAUGE,
    PREFIX,
    Labelled,
    Metric,
    Pieces,
    write_each,
    write_sums,
)
from warren.management.views.redundancy import (
    look_for_lacking,
    members_down,
    members_drained,
    members_of,
    members_unreachable,
    standing_of,
)
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.server.node import Node

CLUSTER: Final = PREFIX + "cluster_"
_FIGURES_AT_ONCE_MAX: Final = 200


class ClusterFigures(NamedTuple):
    members: int
    down: int
    unreachable: int
    drained: int
    queues_down: int
    queues_lacking: int
    copies_missing: int


_PEERS: Final[tuple[Metric[ClusterFigures], ...]] = (
    Metric("unreachable_cluster_peers_count", GAUGE,
           "Number of peers in the cluster the current node cannot reach",
           lambda c: c.down + c.unreachable),
)  # fmt: skip
_CLUSTER: Final[tuple[Metric[ClusterFigures], ...]] = (
    Metric("members", GAUGE, "Members of the cluster, running or not", lambda c: c.members),
    Metric("members_down", GAUGE, "Members of the cluster that are down", lambda c: c.down),
    Metric("members_drained", GAUGE, "Members of the cluster in maintenance mode",
           lambda c: c.drained),
    Metric("queues_down", GAUGE, "Queues of the cluster that no running node is master of",
           lambda c: c.queues_down),
    Metric("queues_lacking_copies", GAUGE,
           "Queues of the cluster that run with fewer synchronised copies than wanted",
           lambda c: c.queues_lacking),
    Metric("queue_copies_missing", GAUGE,
           "Synchronised copies of queues that are wanted and not there, in the whole cluster",
           lambda c: c.copies_missing),
)  # fmt: skip
_COPIES: Final[tuple[Metric[Standing], ...]] = (
    Metric("queue_copies_wanted", GAUGE, "Copies that a queue should have", lambda s: s.wanted),
    Metric("queue_copies_synchronised", GAUGE, "Synchronised copies that a queue has",
           lambda s: s.synchronised),
)  # fmt: skip


def write_redundancy(node: Node) -> Generator[str, None, None]:
    standings = (yield from look_for_lacking(node)).values()
    down = sum(standing.is_down for standing in standings)
    figures = ClusterFigures(
        len(members_of(node)),
        len(members_down(node)),
        len(members_unreachable(node)),
        len(members_drained(node)),
        down,
        len(standings) - down,
        sum(standing.missing for standing in standings),
    )
    yield from write_sums(PREFIX, _PEERS, figures)
    yield from write_sums(CLUSTER, _CLUSTER, figures)


def write_copies(
    prefix: str, node: Node, queues: Sequence[Queue], label: Callable[[Queue], str]
) -> Pieces:
    """Write the copies of each queue that this node is master of."""
    standings: list[Standing] = []
    labels: list[str] = []
    for start in range(0, len(queues), _FIGURES_AT_ONCE_MAX):
        part = queues[start : start + _FIGURES_AT_ONCE_MAX]
        standings += [standing_of(queue.record, node) for queue in part]
        labels += map(label, part)
        yield ""
    yield from write_each(prefix, _COPIES, Labelled(standings, labels))
