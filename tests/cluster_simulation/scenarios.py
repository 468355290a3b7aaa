"""Lives of another kind than `run`: by name, for `scripts/simulate --scenario`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_simulation.run import simulate
from cluster_simulation.summary import Summary
from gm_scenario import Scenario


def random_life(seed: int) -> Summary:
    return Summary.of(simulate(seed).world)


def multicast(seed: int) -> Summary:
    """Guaranteed multicast alone, in larger groups and closer up: G1 to G6, I1 to I13."""
    world = Scenario(seed).run()
    return Summary(1, confirmed=world.witness.confirms)


SCENARIOS: Final[dict[str, Callable[[int], Summary]]] = {
    "random": random_life,
    "multicast": multicast,
}
