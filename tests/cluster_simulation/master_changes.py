"""Every way in which a queue gets another master: the order of deliveries survives all of them.

There is always a backlog, so a copy that comes back still has messages that it had when it left:
delivered since by others, or not. The witness looks at the marks and at the order (`witness`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cluster_simulation.stage import FAILOVER_US, Stage
from cluster_simulation.world import EVERYWHERE, World
from gm_invariants import Violation
from warren.policy.wanted_copies import MirrorMode

ROUNDS: Final = 6
WHOLE_US_MAX: Final = 10_000_000
AWAY_US_MAX: Final = 300_000


def until_whole(stage: Stage) -> None:
    """Wait until all copies are in sync, for as long as chance wants."""
    ends_us = stage.world.schedule.now_us + WHOLE_US_MAX
    while stage.in_sync != "abc" or not stage.record.is_live(stage.record.leader):
        if stage.world.schedule.now_us > ends_us:
            raise Violation(f"not all are in sync: {stage.record}")
        stage.wait(10_000)
    stage.wait(stage.world.schedule.random.randint(1, AWAY_US_MAX))


def others(stage: Stage) -> list[str]:
    return [name for name in stage.world.nodes if name != stage.leader]


def stop_and_start(stage: Stage, name: str) -> None:
    """In good order: others lead what the node led, then it goes, and comes back soon."""
    node, dice = stage.world.nodes[name], stage.world.schedule.random
    for other in dice.sample(others(stage), 2):
        node.hand_over(other, keeps_copy=True)
    stage.wait(FAILOVER_US // 20)
    node.stop()
    stage.world.store.end_session(name, node.incarnation)
    stage.wait(dice.randint(1, AWAY_US_MAX))
    stage.start(name)


def rolling_restarts(seed: int) -> World:
    """Nodes are stopped and started again one by one, each after the last is whole."""
    stage = Stage(seed)
    for turn in range(ROUNDS):
        until_whole(stage)
        stop_and_start(stage, "abc"[turn % 3])
    return stage.end()


def moving_masters(seed: int) -> World:
    """The master goes from node to node, as `rebalance` or `drain` have it, and nobody stops."""
    stage = Stage(seed)
    dice = stage.world.schedule.random
    for _ in range(ROUNDS):
        until_whole(stage)
        keeps_copy = dice.random() < 0.8
        stage.world.nodes[stage.leader].hand_over(dice.choice(others(stage)), keeps_copy)
    return stage.end()


def moving_policies(seed: int) -> World:
    """A policy wants no copy on the master's node, so that another one leads; then it ends."""
    stage = Stage(seed)
    dice = stage.world.schedule.random
    for _ in range(ROUNDS):
        until_whole(stage)
        nodes = tuple(dice.sample(others(stage), 2))
        stage.world.mirroring = replace(EVERYWHERE, mode=MirrorMode.NODES, nodes=nodes)
        stage.wait(dice.randint(1, FAILOVER_US // 2))
        stage.world.mirroring = EVERYWHERE
    return stage.end()


def lost_masters(seed: int) -> World:
    """The master is killed, stands still or is cut off, and comes back."""
    stage = Stage(seed)
    dice = stage.world.schedule.random
    for _ in range(ROUNDS):
        until_whole(stage)
        name = stage.leader
        match dice.choice(["kill", "pause", "isolate"]):
            case "kill":
                stage.kill(name)
                stage.wait(dice.randint(1, AWAY_US_MAX))
                stage.start(name)
            case "pause":
                stage.world.nodes[name].pause()
                stage.wait(dice.randint(AWAY_US_MAX, FAILOVER_US))
                stage.world.nodes[name].resume()
            case _:
                stage.isolate(name)
                stage.wait(dice.randint(AWAY_US_MAX, FAILOVER_US))
                stage.rejoin(name)
    return stage.end()


def all_stopped(seed: int) -> World:
    """All nodes stop in good order, one after another, and come back in any order."""
    stage = Stage(seed)
    dice = stage.world.schedule.random
    for _ in range(2):
        until_whole(stage)
        for name in dice.sample("abc", 3):
            for other in others(stage):
                stage.world.nodes[name].hand_over(other, keeps_copy=True)
            stage.wait(dice.randint(1, AWAY_US_MAX))
            node = stage.world.nodes[name]
            node.stop()
            stage.world.store.end_session(name, node.incarnation)
        for name in dice.sample("abc", 3):
            stage.start(name)
            stage.wait(dice.randint(1, AWAY_US_MAX))
    return stage.end()


MASTER_CHANGES: Final[dict[str, Callable[[int], World]]] = {
    case.__name__.replace("_", "-"): case
    for case in (rolling_restarts, moving_masters, moving_policies, lost_masters, all_stopped)
}
