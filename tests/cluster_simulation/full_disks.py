"""Disks that take nothing for a while: whose copy can be spared goes, and the last one stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_simulation.stage import FAILOVER_US, Stage
from cluster_simulation.world import World

SLOW_STORE_US: Final = 100_000
HANDED_OVER_US: Final = 500_000
"""The longest that clients wait when the leader's disk is full."""


def full_disk_of_the_last_copy(seed: int) -> World:
    """The leader's session ends as its only mirror's disk fills: that leads, and waits for room."""
    stage = Stage(seed)
    stage.kill("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.in_sync == "ab", "c counts, though it is dead")
    store, dice = stage.world.store, stage.world.schedule.random
    former, last = stage.world.nodes["a"], stage.world.nodes["b"]
    store.delay_us_max = SLOW_STORE_US
    former.is_cut_from_store = True
    while store.session_of(former.name) is not None:
        stage.wait(1_000)
    stage.wait(dice.randint(1, 2 * SLOW_STORE_US))
    last.is_disk_full = True
    stage.wait(FAILOVER_US)
    is_out = stage.in_sync == "a"  # b was spared before it knew about a
    stage.require(is_out or stage.leader == "b", "the last copy is nobody's")
    stage.require(stage.heard(is_safe=True) == "", "what no disk has is confirmed")
    last.is_disk_full = False
    stage.require(is_out or stage.heard() == "b", "it does not go on when there is room")
    return stage.end("a" if is_out else "b")


def full_disks_of_mirrors(seed: int) -> World:
    """The leader goes on without them, and they come back when they have room."""
    stage = Stage(seed)
    for name in "bc":
        stage.world.nodes[name].is_disk_full = True
    stage.wait(FAILOVER_US)
    stage.require(stage.in_sync == "a", "the leader waits for disks that are full")
    stage.require(stage.heard() == "abc", "not all run")
    for name in "bc":
        stage.world.nodes[name].is_disk_full = False
    stage.wait(FAILOVER_US)
    stage.require(stage.in_sync == "abc", "not all are in sync")
    return stage.end("a")


def full_disk_of_the_leader(seed: int) -> World:
    """A mirror whose disk has room leads at once, and answers what was under way."""
    stage = Stage(seed)
    refused = set(stage.world.witness.rejected)
    stage.world.nodes["a"].is_disk_full = True
    stage.require_confirms("abc", HANDED_OVER_US, FAILOVER_US)
    stage.require(stage.leader in "bc", "a leads, and cannot write")
    stage.require(stage.in_sync == "bc", "a counts as in sync")
    stage.require(stage.world.witness.rejected == refused, "publishes are refused")
    stage.world.nodes["a"].is_disk_full = False
    stage.wait(FAILOVER_US)
    stage.require(stage.in_sync == "abc", "not all are in sync")
    return stage.end("bc")


FULL_DISKS: Final[dict[str, Callable[[int], World]]] = {
    case.__name__.replace("_", "-"): case
    for case in (
        full_disk_of_the_last_copy,
        full_disks_of_mirrors,
        full_disk_of_the_leader,
    )
}
