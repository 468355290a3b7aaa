"""The cases of RabbitMQ's partition suite (deleted in 2020), as they go here: 7-01 to 7-09.

There the nodes themselves decide who goes on, and `cluster_partition_handling` says how. Here the
store does, whatever that setting is called: its majority cannot be in two places, so there is never
a second leader, nothing diverges, and after a cut there is nothing to choose from. So the cuts are
RabbitMQ's and the outcome is the same for all modes:

- a leader that is cut off from the store stops at the end of its lease, and one that is in sync and
  is not cut off takes over;
- a leader that has the store goes on, without the mirrors that it cannot reach;
- if a mirror in sync reaches nodes that the leader does not, it leads instead;
- clients that cannot reach the leader, nor any mirror that could lead, wait.

How long clients wait at most is part of each case: `PUT_OUT_US` while links are cut, and
`FAILOVER_US` for a leader that is cut off from the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cluster_simulation.stage import FAILOVER_US, PUT_OUT_US, Stage
from cluster_simulation.world import EVERYWHERE, World
from warren.policy.wanted_copies import MirrorMode

UNMIRRORED: Final = replace(EVERYWHERE, mode=MirrorMode.EXACTLY, count=1)


def ignore(seed: int) -> World:
    """7-01: the leader is cut off, and the others go on without it."""
    stage = Stage(seed)
    stage.isolate("a")
    stage.require_confirms("bc", FAILOVER_US, 2 * FAILOVER_US)
    stage.require(stage.leader in "bc", "nobody took over")
    heard = stage.heard()
    stage.require(heard == "bc", f"confirms are heard on {heard}")
    return stage.end("bc")


def pause_minority_on_down(seed: int) -> World:
    """7-02: mirrors die one after the other. A lone leader goes on: the store has its majority."""
    stage = Stage(seed)
    stage.kill("b")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "ac", "it does not go on without b")
    stage.kill("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "a", "it does not go on alone")
    stage.require(stage.in_sync == "a", "those who died are in sync")
    return stage.end("a")


def pause_minority_on_blocked(seed: int) -> World:
    """7-03: who is cut off stops, the others run; then all do."""
    stage = Stage(seed)
    stage.isolate("a")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "bc", "not just b and c run")
    stage.rejoin("a")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "abc", "not all run")
    stage.require(stage.in_sync == "abc", "not all are in sync")
    return stage.end("bc")


def pause_if_all_down_on_down(seed: int) -> World:
    """7-04: the preferred node dies."""
    stage = Stage(seed)
    stage.kill("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "ab", "a and b do not run")
    stage.start("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "abc", "not all run")
    return stage.end("a")


def pause_if_all_down_on_blocked(seed: int) -> World:
    """7-04: the preferred node is cut off."""
    stage = Stage(seed)
    stage.isolate("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "ab", "not just a and b run")
    stage.rejoin("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "abc", "not all run")
    return stage.end("a")


def pause_minority_false_promises_mirrored(seed: int) -> World:
    """7-05: publishes all the while with a leader that is cut off: none is confirmed in vain."""
    stage = Stage(seed)
    stage.isolate("a")
    stage.wait(FAILOVER_US)
    stage.require("a" not in stage.heard(), "a is told what a cannot know")
    return stage.end("bc")


def pause_minority_false_promises_unmirrored(seed: int) -> World:
    """7-05: the only copy is cut off: the queue waits for it, for nobody else has what it has."""
    stage = Stage(seed, UNMIRRORED)
    stage.isolate("a")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "", "somebody confirms")
    stage.require(stage.leader == "a", "somebody took over who has nothing")
    stage.rejoin("a")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "abc", "not all run")
    return stage.end("a")


def pause_if_all_down_false_promises_mirrored(seed: int) -> World:
    """7-05: a leader loses its mirrors, not the store: it goes on when they are put out."""
    stage = Stage(seed)
    stage.cut("ab", "ac")
    stage.wait(PUT_OUT_US)
    stage.require(stage.heard() == "a", "not just those who reach the leader are served")
    stage.require(stage.in_sync == "a", "it goes on without having put them out")
    return stage.end("a")


def pause_if_all_down_false_promises_unmirrored(seed: int) -> World:
    """7-05: the same with nobody to lose."""
    stage = Stage(seed, UNMIRRORED)
    stage.cut("ab", "ac")
    stage.require(stage.heard() == "a", "not just those who reach the leader are served")
    return stage.end("a")


def autoheal(seed: int) -> World:
    """7-06: cuts of growing size, with the store for all; nobody takes over while they last.

    While they heal, links come up one after the other: a mirror may lead that has more of them.
    """
    for pairs in (("bc",), ("ac", "bc"), ("ab", "ac", "bc")):
        stage = Stage(seed)
        stage.cut(*pairs)
        stage.wait(FAILOVER_US)
        stage.require("a" in stage.heard(), f"the leader stands still when {pairs} are cut")
        stage.require(stage.record.epoch == 1, f"somebody took over when {pairs} were cut")
        stage.world.mend_links()
        stage.wait(FAILOVER_US)
        stage.require(stage.heard() == "abc", f"not all run after {pairs} were cut")
        world = stage.end()
    return world


def autoheal_after_pause_if_all_down(seed: int) -> World:
    """7-07: b and c are alone, each for itself, and come back one after the other."""
    stage = Stage(seed)
    stage.isolate("b")
    stage.isolate("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "a", "not just a runs")
    stage.rejoin("b")
    stage.world.cut("b", "c")
    stage.world.cut("c", "b")
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "ab", "not just a and b run")
    return stage.end("a")


def autoheal_multiple_partial_partitions(seed: int) -> World:
    """7-07: one pair after the other is cut, before the last has come to terms with it."""
    stage = Stage(seed)
    for pair in ("ab", "ac", "bc", "ab", "ac", "bc"):
        stage.cut(pair)
        stage.wait(400_000)
        stage.world.mend_links()
        stage.wait(100_000)
    stage.wait(FAILOVER_US)
    stage.require(stage.heard() == "abc", "not all run")
    return stage.end("a")


def autoheal_unexpected_finish(seed: int) -> World:
    """7-07: while a cut heals, the leader dies."""
    stage = Stage(seed)
    stage.isolate("b")
    stage.wait(FAILOVER_US)
    stage.rejoin("b")
    stage.wait(20_000)
    stage.kill("a")
    stage.wait(FAILOVER_US)
    stage.require(stage.leader == "c", "c was in sync and did not take over")
    stage.require(stage.heard() == "bc", "b and c do not run")
    return stage.end("c")


def partial_false_positive(seed: int) -> World:
    """7-08: a and b are cut, and who could have told them of each other dies."""
    stage = Stage(seed)
    stage.cut("ab")
    stage.kill("c")
    stage.wait(FAILOVER_US)
    stage.require(stage.leader == "a", "somebody took over from a leader who lives")
    stage.require(stage.heard() == "a", "not just a runs")
    return stage.end("ac")  # c may be linked to both again before they are to each other


def partial_to_full(seed: int) -> World:
    """7-08: a cut of two becomes one of three."""
    stage = Stage(seed)
    stage.cut("ab")
    stage.require_confirms("abc", PUT_OUT_US, FAILOVER_US)
    stage.require(stage.leader == "c", "c reaches both and does not lead")
    stage.cut("bc", "ac")
    stage.wait(PUT_OUT_US)
    stage.require(stage.heard() == "c", "not just c runs")
    return stage.end("c")


def partial_pause_minority(seed: int) -> World:
    """7-08: the leader and one mirror are cut: the other mirror leads, and all are served."""
    stage = Stage(seed)
    stage.cut("ab")
    stage.require_confirms("abc", PUT_OUT_US, FAILOVER_US)
    stage.require(stage.leader == "c", "c reaches both and does not lead")
    stage.require(stage.in_sync in ("ac", "bc"), "a and b cannot both be in sync")
    return stage.end("c")


def partial_one_way(seed: int) -> World:
    """7-10: what one of two nodes sends to the other is lost, whichever of them leads."""
    for sender, target in ("ab", "ba", "bc", "cb"):
        stage = Stage(seed)
        stage.world.cut(sender, target)
        stage.require_confirms("abc", PUT_OUT_US, FAILOVER_US)
        stage.world.mend(sender, target)
        stage.require_confirms("abc", PUT_OUT_US, FAILOVER_US)
        world = stage.end("c" if "a" in (sender, target) else "a")
    return world


def partial_pause_if_all_down(seed: int) -> World:
    """7-08: two mirrors are cut from each other, and their leader is not."""
    stage = Stage(seed)
    stage.cut("bc")
    stage.require_confirms("abc", PUT_OUT_US, FAILOVER_US)
    return stage.end("a")


def prompt_disconnect_detection(seed: int) -> World:
    """7-09: who dies in the midst of a cut is noticed in time, not when the cut heals."""
    stage = Stage(seed)
    stage.cut("ab")
    stage.kill("a")
    stage.wait(FAILOVER_US)
    stage.require(stage.leader in "bc", "nobody took over")
    stage.require(stage.heard() == "bc", "b and c do not run")
    return stage.end("bc")


def ctl_ticktime_sync(seed: int) -> World:
    """A link that is slow is no cut: nobody is put out, nobody takes over."""
    stage = Stage(seed)
    before = stage.record
    for one, other in ("ab", "ba", "bc", "cb"):
        stage.world.network.slow_down(one, other, 300_000)
    stage.wait(FAILOVER_US)
    stage.require(stage.record.insync == before.insync, "somebody was put out")
    stage.require(stage.heard() == "abc", "not all run")
    return stage.end("a")


PARTITIONS: Final[dict[str, Callable[[int], World]]] = {
    case.__name__.replace("_", "-"): case
    for case in (
        ignore,
        pause_minority_on_down,
        pause_minority_on_blocked,
        pause_if_all_down_on_down,
        pause_if_all_down_on_blocked,
        pause_minority_false_promises_mirrored,
        pause_minority_false_promises_unmirrored,
        pause_if_all_down_false_promises_mirrored,
        pause_if_all_down_false_promises_unmirrored,
        autoheal,
        autoheal_after_pause_if_all_down,
        autoheal_multiple_partial_partitions,
        autoheal_unexpected_finish,
        partial_false_positive,
        partial_to_full,
        partial_pause_minority,
        partial_one_way,
        partial_pause_if_all_down,
        prompt_disconnect_detection,
        ctl_ticktime_sync,
    )
}
