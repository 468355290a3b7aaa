"""The mirrored queues of a run, and whether all their copies are there and in sync.

All of them would rather be down than lose messages, and their mirrors are synchronised by
themselves: so whatever was confirmed has to be there when all nodes are well again.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from cluster_chaos.world import ChaosNode, World
from warren.cluster.sessions import decode_session
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.keys import KeyKind, parse_key, prefix
from warren.replication.group_record import GroupRecord, decode_record

EVERYWHERE: Final = ("all-0", "all-1", "all-2", "all-kept", "quorum-0", "quorum-kept")
TWICE: Final = ("two-0", "two-kept")
QUEUES: Final = (*EVERYWHERE, *TWICE)
KEPT: Final = ("all-kept", "two-kept", "quorum-kept")
"""These are emptied from time to time only, so that there is something to synchronise."""
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "all-1": {"x-max-priority": 3},
    "all-2": {"x-queue-mode": "lazy"},
    "quorum-0": {"x-queue-type": "quorum"},
    "quorum-kept": {"x-queue-type": "quorum"},
}
_SAFE: Final = {"ha-sync-mode": "automatic", "ha-promote-on-failure": "when-synced"}
POLICIES: Final = {
    "all": {"ha-mode": "all", **_SAFE},
    "two": {"ha-mode": "exactly", "ha-params": 2, **_SAFE},
}


def copies_of(queue: str, nodes: int) -> int:
    return 2 if queue in TWICE else nodes


async def _groups_and_lives(metadata: str) -> tuple[dict[str, GroupRecord], set[tuple[str, str]]]:
    store = EtcdStore(parse_etcd_address(metadata))
    await store.open()
    try:
        groups = {}
        for record in await store.range(prefix(KeyKind.GROUP)):
            key = parse_key(record.key)
            assert key is not None
            groups[key.parts[1]] = decode_record(record.value)
        lives = set()
        for record in await store.range(prefix(KeyKind.NODE)):
            key = parse_key(record.key)
            session = decode_session(record.value)
            assert key is not None
            assert session is not None
            lives.add((key.parts[0], session.incarnation))
        return groups, lives
    finally:
        await store.close()


def groups_and_lives(world: World) -> tuple[dict[str, GroupRecord], set[tuple[str, str]]]:
    """What etcd says of the queues' copies, and of nodes and their incarnations."""
    return asyncio.run(_groups_and_lives(world.metadata))


def lacking(world: World) -> list[str]:
    """Of which queues a copy is missing or behind. Raises MetadataError."""
    groups, lives = groups_and_lives(world)
    problems = []
    for queue in QUEUES:
        group = groups.get(queue)
        if group is None:
            problems.append(f"{queue} has no group")
            continue
        alive = [m for m in group.live if (m.node, m.incarnation) in lives]
        in_sync = [member.node for member in alive if member.id in group.insync]
        if len(in_sync) != copies_of(queue, len(world.nodes)):
            problems.append(f"{queue} is in sync at {in_sync} only: {group}")
        if group.leader not in [member.id for member in alive]:
            problems.append(f"{queue} has no master: {group}")
    return problems


def misunderstandings(world: World) -> list[str]:
    """Nodes whose API says of a queue what is not in etcd. Raises OSError, MetadataError."""
    groups, _ = groups_and_lives(world)
    problems = []
    for node in world.nodes:
        told = {queue["name"]: queue for queue in node.ask("/api/queues")}
        for queue in QUEUES:
            group, shown = groups.get(queue), told.get(queue, {})
            leader = None if group is None else group.find(group.leader)
            home = None if leader is None else leader.node
            if shown.get("node") != home:
                problems.append(f"{node.name} says {queue} is at {shown.get('node')}, not {home}")
    return problems


def a_master(world: World, chance: random.Random) -> ChaosNode:
    """A node that leads one of the queues; any, if that cannot be found out."""
    groups, _ = groups_and_lives(world)
    group = groups.get(chance.choice(QUEUES))
    leader = None if group is None else group.find(group.leader)
    names = [node for node in world.nodes if leader is not None and node.name == leader.node]
    return names[0] if names else chance.choice(world.nodes)
