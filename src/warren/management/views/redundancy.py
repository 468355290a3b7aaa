"""Redundancy as JSON: copies of a queue that are wanted and in sync, and what a cluster lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Iterator
from typing import TYPE_CHECKING, Final

from warren.cluster.redundancy import Standing, wanted_count
from warren.management.json_types import JsonObject
from warren.model.records import QueueName, QueueRecord
from warren.policy.wanted_copies import mirroring_of

if TYPE_CHECKING:
    from warren.server.node import Node

# More queues than that are counted, but not listed.
LISTED_MAX: Final = 100
_LOOKED_AT_ONCE_MAX: Final = 500
_STATES: Final = {True: "down", False: "running"}


def standing_of(record: QueueRecord, node: Node) -> Standing:
    """Return how many copies a queue should have and has."""
    if node.cluster is not None:
        return node.cluster.redundancy.redundancy.standing_of(record)
    vhost = node.broker.vhosts.get(record.vhost)
    policy = {} if vhost is None else vhost.policies.of_queue(record).effective
    mirroring = None if record.exclusive else mirroring_of(policy)
    return Standing(wanted_count(mirroring, 1), 1)


def show_standing(record: QueueRecord, node: Node) -> JsonObject:
    standing = standing_of(record, node)
    return {"wanted_copies": standing.wanted, "synchronised_copies": standing.synchronised}


def look_for_lacking(node: Node) -> Generator[str, None, dict[QueueName, Standing]]:
    """Return all queues of the cluster that are down or have fewer copies than wanted, in steps.

    Each step yields an empty text, so that an answer to Prometheus can have it as a piece.
    """
    if node.cluster is not None:
        redundancy = node.cluster.redundancy.redundancy
        while not redundancy.look():
            yield ""
        return redundancy.lacking
    lacking = {}
    queues = [queue for vhost in node.broker.vhosts.values() for queue in vhost.queues_here()]
    for number, queue in enumerate(queues, 1):
        standing = standing_of(queue.record, node)
        if not standing.is_whole:
            lacking[queue.record.vhost, queue.record.name] = standing
        if number % _LOOKED_AT_ONCE_MAX == 0:
            yield ""
    return lacking


async def lacking_queues(node: Node) -> dict[QueueName, Standing]:
    """Return the same, with a turn of the loop after each step."""
    steps = look_for_lacking(node)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: dict[QueueName, Standing] = end.value
            return found
        await asyncio.sleep(0)


def members_of(node: Node) -> list[str]:
    """Return all members of the cluster, running or not, by name."""
    if node.cluster is None:
        return [node.config.name]
    return sorted({node.config.name, *node.cluster.membership.members})


def members_down(node: Node) -> list[str]:
    running = [node.config.name] if node.cluster is None else node.cluster.running_nodes
    return [name for name in members_of(node) if name not in running]


def members_unreachable(node: Node) -> list[str]:
    """Return members that run, as the metadata store says, and that this node has no link to."""
    if node.cluster is None:
        return []
    view = node.cluster.view
    return sorted(name for name in view.sessions if name not in view.linked)


def members_drained(node: Node) -> list[str]:
    others = set() if node.cluster is None else node.cluster.view.drained & {*members_of(node)}
    own = {node.config.name} if node.maintenance.is_drained else set()
    return sorted({*others, *own} - {*members_down(node)})


async def show_redundancy(node: Node, vhosts: Collection[str], is_monitor: bool) -> JsonObject:
    """Show what the cluster lacks: queues of these virtual hosts, and members to monitors."""
    lacking = {
        name: standing
        for name, standing in (await lacking_queues(node)).items()
        if name[0] in vhosts
    }
    down = sum(standing.is_down for standing in lacking.values())
    shown: JsonObject = {
        "queues_down": down,
        "queues_lacking_copies": len(lacking) - down,
        "copies_missing": sum(standing.missing for standing in lacking.values()),
        "queues": list(_listed(lacking)),
    }
    if is_monitor:
        shown.update(
            members=members_of(node),
            members_down=members_down(node),
            members_unreachable=members_unreachable(node),
            members_drained=members_drained(node),
        )
    return shown


def _listed(lacking: dict[QueueName, Standing]) -> Iterator[JsonObject]:
    """Show the first of them, those that are down before others."""
    order = sorted(lacking, key=lambda name: (not lacking[name].is_down, name))
    for vhost, name in order[:LISTED_MAX]:
        standing = lacking[vhost, name]
        yield {
            "vhost": vhost,
            "name": name,
            "state": _STATES[standing.is_down],
            "wanted_copies": standing.wanted,
            "synchronised_copies": standing.synchronised,
        }
