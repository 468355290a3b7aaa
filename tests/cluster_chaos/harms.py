"""What is done to a cluster of mirrored queues in a round: one kind of harm, again and again.

`gently` waits until all copies are in sync before it strikes, and strikes one node at a time. Then
there is always a mirror that has everything, and no publisher at any other node may be told no.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Final, TypeAlias

from cluster_chaos.copies import EVERYWHERE, POLICIES, a_master, groups_and_lives, lacking
from cluster_chaos.faults import (
    CUT_S_MAX,
    DOWN_S_MAX,
    PAUSE_S_MAX,
    cut,
    cut_from_etcd,
    cut_from_node,
    hurt,
    kill,
    pause,
    stop,
)
from cluster_chaos.world import ChaosNode, World
from warren.metadata.store import MetadataError
from warren.replication.group_record import node_of

Harm: TypeAlias = Callable[[World, random.Random, float], Iterator[str]]
Fault: TypeAlias = Callable[[World, ChaosNode], AbstractContextManager[None]]

IN_SYNC_S_MAX: Final = 300.0
FULL_S_MAX: Final = 8.0
WITHIN_S: Final = 60.0
REST_S_MAX: Final = 5.0
REFILL_S: Final = 0.1


def await_in_sync(world: World) -> None:
    deadline = time.monotonic() + IN_SYNC_S_MAX
    while problems := _lacking(world):
        assert time.monotonic() < deadline, f"within {IN_SYNC_S_MAX:g} s: {problems}"
        world.revive()
        time.sleep(0.2)


def _lacking(world: World) -> list[str]:
    try:
        return lacking(world)
    except MetadataError as error:
        return [f"etcd does not answer: {error}"]


def gently(fault: Fault, lasts_s_max: float) -> Harm:
    def harm(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            await_in_sync(world)
            node = a_master(world, chance) if chance.random() < 0.8 else chance.choice(world.nodes)
            lasts_s = min(chance.uniform(0, lasts_s_max), left_s)
            with fault(world, node):
                yield f"{fault.__name__} {node.name} {lasts_s:.1f} s"
                time.sleep(lasts_s)
            await_in_sync(world)

    return harm


def halves(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """One or two of three nodes are by themselves, etcd and clients are with the rest."""
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        split = sorted(chance.sample(range(len(world.nodes)), chance.choice([1, 2])))
        lasts_s = min(chance.uniform(0, CUT_S_MAX), left_s)
        world.network.split(split)
        yield f"split off {[world.nodes[number].name for number in split]} {lasts_s:.1f} s"
        time.sleep(lasts_s)
        world.network.join(split)
        if chance.random() < 0.5:
            await_in_sync(world)


def rolling_restart(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """As an operator does it: the next one when all copies are in sync again."""
    for node in chance.sample(world.nodes, len(world.nodes)):
        await_in_sync(world)
        yield f"restart {node.name}"
        node.end(signal.SIGTERM)
        node.start()
        world.await_ready()
    await_in_sync(world)


def drain_and_rebalance(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """Nodes give up their masters and clients, come back, and get masters again."""
    for node in chance.sample(world.nodes, len(world.nodes)):
        await_in_sync(world)
        maintenance = f"/api/warren/nodes/{node.name}/maintenance"
        yield f"drain {node.name}"
        node.ask(maintenance, "PUT", {"drained": True}, WITHIN_S)
        time.sleep(chance.uniform(0, REST_S_MAX))
        yield f"revive {node.name}"
        node.ask(maintenance, "PUT", {"drained": False}, WITHIN_S)
        await_in_sync(world)
        done = world.nodes[0].ask("/api/warren/rebalance", "POST", {}, WITHIN_S)
        yield f"rebalanced: {done}"
    await_in_sync(world)


def move_by_policy(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """A policy of higher priority wants all copies of a queue elsewhere, and goes again."""
    path = "/api/policies/%2F/elsewhere"
    for queue in chance.sample(EVERYWHERE, len(EVERYWHERE)):
        await_in_sync(world)
        groups, _ = groups_and_lives(world)
        leader = node_of(groups[queue].leader)
        others = [node.name for node in world.nodes if node.name != leader]
        chance.shuffle(others)
        definition = {**POLICIES["all"], "ha-mode": "nodes", "ha-params": others}
        body = {"pattern": f"^{queue}$", "definition": definition, "priority": 1}
        yield f"{queue} from {leader} to {others}"
        world.nodes[0].ask(path, "PUT", body)
        time.sleep(chance.uniform(0, REST_S_MAX))
        world.nodes[0].ask(path, "DELETE")
    await_in_sync(world)


def all_down_up(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """Together or one after another, killed or stopped; back in any order."""
    ending = chance.choice([signal.SIGKILL, signal.SIGTERM])
    pause_s = chance.choice([0.0, 2.0])
    down = chance.sample(world.nodes, len(world.nodes))
    yield f"{ending.name} for {[node.name for node in down]}, {pause_s:g} s apart"
    for node in down:
        node.end(ending)
        time.sleep(chance.uniform(0, pause_s))
    back = chance.sample(world.nodes, len(world.nodes))
    for node in back:
        node.start()
        time.sleep(chance.uniform(0, pause_s))
    yield f"all started again, in the order {[node.name for node in back]}"
    world.await_ready()


def fill_disk(world: World, chance: random.Random, seconds: float) -> Iterator[str]:
    """Of one node, to the last byte; sometimes a node is killed meanwhile."""
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        node = chance.choice(world.nodes)
        victim = chance.choice([None, None, *world.nodes])
        assert node.disk is not None, "nodes of this world have small disks"
        lasts_s = min(chance.uniform(1, FULL_S_MAX), max(left_s, 1.0))
        meanwhile = "" if victim is None else f", meanwhile kill {victim.name}"
        with ExitStack() as healing:
            healing.callback(node.disk.make_room)
            node.disk.fill()
            yield f"fill the disk of {node.name} {lasts_s:.1f} s{meanwhile}"
            _keep_full(node, lasts_s / 2)
            if victim is not None:
                victim.end(signal.SIGKILL)
            _keep_full(node, lasts_s / 2)
        if victim is not None:
            victim.start()
        await_in_sync(world)


def _keep_full(node: ChaosNode, seconds: float) -> None:
    """What the node deletes is filled up, too."""
    assert node.disk is not None
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        node.disk.fill()
        time.sleep(REFILL_S)


HARMS: Final[dict[str, Harm]] = {
    "kill": gently(kill, DOWN_S_MAX),
    "stop": gently(stop, DOWN_S_MAX),
    "pause": gently(pause, PAUSE_S_MAX),
    "cut": gently(cut, CUT_S_MAX),
    "cut-from-etcd": gently(cut_from_etcd, CUT_S_MAX),
    "one-way": gently(cut_from_node, CUT_S_MAX),
    "halves": halves,
    "rolling-restart": rolling_restart,
    "drain": drain_and_rebalance,
    "policy": move_by_policy,
    "all-down-up": all_down_up,
    "disk-full": fill_disk,
    "storm": hurt,
}
NO_NACKS: Final = frozenset({"kill", "stop", "pause", "cut", "rolling-restart"})
"""Harm that leaves a mirror with everything, so that no publish need be refused."""
