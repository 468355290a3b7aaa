"""Metrics of mirrored queues: what this node leads and copies, and what it took over. Ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from warren.management.metrics.exposition import COUNTER, GAUGE, Metric

if TYPE_CHECKING:
    from warren.server.node import Node


class MirrorFigures(NamedTuple):
    led: int = 0
    mirrors: int = 0
    unsynchronised: int = 0
    promotions: int = 0
    unsafe_promotions: int = 0
    messages_lost: int = 0


def figures_of_mirrors(node: Node) -> MirrorFigures:
    if node.cluster is None:
        return MirrorFigures()
    registry = node.cluster.node
    led = mirrors = unsynchronised = 0
    for host in registry.replicas.values():
        replica = host.replica
        if replica.master is not None:
            led += 1
            continue
        mirrors += 1
        record = replica.record
        unsynchronised += record is None or replica.me.id not in record.insync
    log = registry.log
    taken_over = (log.promotions, log.unsafe_promotions, log.messages_lost)
    return MirrorFigures(led, mirrors, unsynchronised, *taken_over)


_Metric = Metric[MirrorFigures]

MIRRORS: Final = (
    _Metric("mirrored_queues_led", GAUGE, "Mirrored queues whose master is on this node",
            lambda m: m.led),
    _Metric("queue_mirrors", GAUGE, "Mirrors of queues on this node", lambda m: m.mirrors),
    _Metric("queue_mirrors_unsynchronised", GAUGE,
            "Mirrors of queues on this node that lack messages of their masters",
            lambda m: m.unsynchronised),
    _Metric("queue_mirror_promotions_total", COUNTER,
            "Total number of mirrors of this node that became masters", lambda m: m.promotions),
    _Metric("queue_mirror_unsafe_promotions_total", COUNTER,
            "Total number of mirrors of this node that became masters without being synchronised",
            lambda m: m.unsafe_promotions),
    _Metric("queue_mirror_messages_lost_total", COUNTER,
            "Total number of messages that unsafe promotions lost, as far as known",
            lambda m: m.messages_lost),
)  # fmt: skip
