"""Every way in which a queue gets another master: the order of deliveries survives all of them.

There is always a backlog, so a copy that comes back still has messages that it had when it left:
delivered since by others, or not. The witness looks at the marks and at the order (`witness`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cluster_simulation.node import SimNode
from cluster_simulation.stage import FAILOVER_US, Stage
from cluster_simulation.world import EVERYWHERE, World
from gm_invariants import Violation
from warren.cluster.events import RelocationWanted
from warren.policy.wanted_copies import MirrorMode

ROUNDS: Final = 6
WHOLE_US_MAX: Final = 20_000_000
SLOW_US: Final = 2_000_000
"""The longest that a consumer keeps a message: slower than publishers, so there is a backlog."""
STOP_US_MAX: Final = 20_000_000
AWAY_US_MAX: Final = 300_000


def until_whole(stage: Stage) -> None:
    """Wait until all copies are in sync, for as long as chance wants."""
    ends_us = stage.world.schedule.now_us + WHOLE_US_MAX
    while stage.in_sync != "abc" or not stage.record.is_live(stage.record.leader):
        if stage.world.schedule.now_us > ends_us:
            raise Violation(f"not all are in sync: {stage.record}")
        stage.wait(10_000)
    stage.wait(stage.world.schedule.random.randint(1, AWAY_US_MAX))


def until_led(stage: Stage, names: str) -> None:
    """Wait until one of these nodes leads."""
    ends_us = stage.world.schedule.now_us + FAILOVER_US
    while stage.leader not in names:
        if stage.world.schedule.now_us > ends_us:
            raise Violation(f"none of {names} leads: {stage.record}")
        stage.wait(10_000)


def others(stage: Stage) -> list[str]:
    return [name for name in stage.world.nodes if name != stage.leader]


def relocate(leader: SimNode, to: str) -> None:
    wanted = RelocationWanted(leader.world.queue_name, to)
    leader.do(lambda process: process.shell.tell(wanted))


def stop(stage: Stage, name: str) -> None:
    """In good order: others lead what the node led, then it goes."""
    node = stage.world.nodes[name]
    assert node.process is not None, "it runs"
    node.process.stop()
    ends_us = stage.world.schedule.now_us + STOP_US_MAX
    while node.is_up:
        if stage.world.schedule.now_us > ends_us:
            raise Violation(f"{name} does not stop: {stage.record}")
        stage.wait(10_000)


def stop_and_start(stage: Stage, name: str) -> None:
    stop(stage, name)
    stage.wait(stage.world.schedule.random.randint(1, AWAY_US_MAX))
    stage.start(name)


def rolling_restarts(seed: int) -> World:
    """Nodes are stopped and started again one by one, each after the last is whole."""
    stage = Stage(seed, consumer_us_max=SLOW_US)
    for turn in range(ROUNDS):
        until_whole(stage)
        stop_and_start(stage, "abc"[turn % 3])
    return stage.end()


def moving_masters(seed: int) -> World:
    """The master goes from node to node, as `rebalance` or `drain` have it, and nobody stops."""
    stage = Stage(seed, consumer_us_max=SLOW_US)
    dice = stage.world.schedule.random
    for _ in range(ROUNDS):
        until_whole(stage)
        leader, to = stage.world.nodes[stage.leader], dice.choice(others(stage))
        relocate(leader, to)
        until_led(stage, to)
    return stage.end()


def drained_masters(seed: int) -> World:
    """The master's node is taken out of service, and comes back into it."""
    stage = Stage(seed, consumer_us_max=SLOW_US)
    dice = stage.world.schedule.random
    for _ in range(ROUNDS):
        until_whole(stage)
        node = stage.world.nodes[stage.leader]
        node.do(lambda process: process.drain(is_drained=True))
        stage.wait(dice.randint(1, FAILOVER_US // 2))
        node.do(lambda process: process.drain(is_drained=False))
    return stage.end()


def moving_policies(seed: int) -> World:
    """A policy wants no copy on the master's node, so that another one leads; then it ends."""
    stage = Stage(seed, consumer_us_max=SLOW_US)
    dice = stage.world.schedule.random
    for _ in range(ROUNDS):
        until_whole(stage)
        nodes = tuple(dice.sample(others(stage), 2))
        stage.world.set_policy(replace(EVERYWHERE, mode=MirrorMode.NODES, nodes=nodes))
        until_led(stage, "".join(nodes))
        stage.wait(dice.randint(1, FAILOVER_US // 2))
        stage.world.set_policy(EVERYWHERE)
    return stage.end()


def lost_masters(seed: int) -> World:
    """The master is killed, stands still or is cut off, and comes back."""
    stage = Stage(seed, consumer_us_max=SLOW_US)
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
    stage = Stage(seed, consumer_us_max=SLOW_US)
    dice = stage.world.schedule.random
    for _ in range(2):
        until_whole(stage)
        for name in dice.sample("abc", 3):
            stop(stage, name)
        for name in dice.sample("abc", 3):
            stage.start(name)
            stage.wait(dice.randint(1, AWAY_US_MAX))
    return stage.end()


MASTER_CHANGES: Final[dict[str, Callable[[int], World]]] = {
    case.__name__.replace("_", "-"): case
    for case in (
        rolling_restarts,
        moving_masters,
        drained_masters,
        moving_policies,
        lost_masters,
        all_stopped,
    )
}
