"""7-10 to 7-14: one leader at any time, whatever is cut, stands still or is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_simulation.stage import FAILOVER_US, LEASE_US, Stage
from cluster_simulation.world import World

LINKS: Final = ("ab", "ba", "ac", "ca", "bc", "cb")
STORES: Final = ("", "a", "b", "ab")
LINK_SHAPES: Final = 1 << len(LINKS)


def no_dual_leader(seed: int) -> World:
    """7-10: the seed is the shape of the cut: any links, one way or both, and who has no store."""
    stage = Stage(seed)
    without_store = STORES[seed // LINK_SHAPES % len(STORES)]
    for bit, (one, other) in enumerate(LINKS):
        if seed >> bit & 1:
            stage.world.cut(one, other)
    for name in without_store:
        stage.world.nodes[name].is_cut_from_store = True
    stage.wait(FAILOVER_US)
    return stage.end()


def confirmed_not_lost(seed: int) -> World:
    """7-11: and somebody dies in it, the leader or another."""
    stage = Stage(seed)
    dice = stage.world.schedule.random
    for one, other in dice.sample(LINKS, dice.randint(1, 5)):
        stage.world.cut(one, other)
    stage.wait(dice.randint(1, FAILOVER_US))
    victim = dice.choice([stage.leader, "a", "b", "c"])
    stage.kill(victim)
    stage.wait(dice.randint(1, FAILOVER_US))
    stage.start(victim)
    stage.wait(dice.randint(1, FAILOVER_US))
    return stage.end()


def store_outage(seed: int) -> World:
    """7-12: nobody has the store for long: all stands still from the end of the lease on."""
    stage = Stage(seed)
    epoch = stage.record.epoch
    stage.world.store_goes_down()
    stage.wait(LEASE_US)
    stage.require(stage.heard() == "", "somebody confirms without a lease")
    stage.wait(3 * LEASE_US)
    stage.world.store_comes_back()
    stage.wait(FAILOVER_US)
    stage.require(stage.record.epoch == epoch, "somebody took over")
    stage.require(stage.heard() == "abc", "not all run")
    return stage.end("a")


def paused_process(seed: int) -> World:
    """7-13: the leader stands still for two leases, then goes on: not as the leader."""
    stage = Stage(seed)
    stage.world.nodes["a"].pause()
    stage.wait(2 * LEASE_US)
    stage.require(stage.leader in "bc", "nobody took over")
    stage.world.nodes["a"].resume()
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "abc", "not all run")
    stage.require(stage.in_sync == "abc", "not all are in sync")
    return stage.end("bc")


def watch_compaction(seed: int) -> World:
    """7-14: what happened while a node did not hear is not to be had any more: it finds out."""
    stage = Stage(seed)
    node = stage.world.nodes["b"]
    node.is_cut_from_store = True
    gone = stage.world.store.session_of("c")
    assert gone is not None, "c runs"
    stage.kill("c")
    stage.wait(200_000)
    stage.world.store.end_session("c", gone.incarnation)
    stage.start("c")
    stage.wait(400_000)
    stage.world.store.compact()
    node.mend_store()
    stage.wait(FAILOVER_US)
    process = node.process
    assert process is not None, "b runs"
    known = process.machine.view.group_of(stage.world.queue_name)
    stage.require(known == stage.record, "b knows something else")
    stage.require(stage.in_sync == "abc", "not all are in sync")
    return stage.end("a")


FENCES: Final[dict[str, Callable[[int], World]]] = {
    case.__name__.replace("_", "-"): case
    for case in (no_dual_leader, confirmed_not_lost, store_outage, paused_process, watch_compaction)
}
