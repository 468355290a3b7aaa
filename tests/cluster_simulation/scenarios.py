"""Lives of another kind than `run`: by name, for `scripts/simulate --scenario`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_simulation.fences import FENCES
from cluster_simulation.full_disks import FULL_DISKS
from cluster_simulation.master_changes import MASTER_CHANGES
from cluster_simulation.partitions import PARTITIONS
from cluster_simulation.run import simulate
from cluster_simulation.summary import Summary
from cluster_simulation.world import World
from gm_invariants import Violation
from gm_scenario import Scenario

Life = Callable[[int], Summary]


def random_life(seed: int) -> Summary:
    return Summary.of(simulate(seed).world)


def quorum(seed: int) -> Summary:
    """The same with a quorum queue: its nodes are chosen anew instead of its policy."""
    return Summary.of(simulate(seed, is_quorum=True).world)


def declared_late(seed: int) -> Summary:
    """The same with a queue that a client declares while nodes run: it begins with its copies."""
    return Summary.of(simulate(seed, is_declared_late=True).world)


def multicast(seed: int) -> Summary:
    """Guaranteed multicast alone, in larger groups and closer up: G1 to G6, I1 to I13."""
    world = Scenario(seed).run()
    return Summary(1, confirmed=world.witness.settled)


def scripted(script: Callable[[int], World]) -> Life:
    def live(seed: int) -> Summary:
        try:
            return Summary.of(script(seed))
        except Violation as violation:
            raise Violation(f"seed {seed}: {violation}") from violation

    return live


SCRIPTS: Final = FENCES | PARTITIONS | FULL_DISKS | MASTER_CHANGES
SCENARIOS: Final[dict[str, Life]] = {
    "random": random_life,
    "quorum": quorum,
    "declared-late": declared_late,
    "multicast": multicast,
    **{name: scripted(script) for name, script in SCRIPTS.items()},
}
