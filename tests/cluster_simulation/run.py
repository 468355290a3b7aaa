"""One seed: work and harm for a while, then peace, then the reckoning."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cluster_simulation.harm import Harm
from cluster_simulation.world import World
from gm_invariants import Violation

QUIET_US: Final = 500_000
"""Before any harm is done."""
HARM_US: Final = 8_000_000


class Run:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed, nodes=2 + seed % 3)
        self.dice = self.world.schedule.random
        self.harm = Harm(self.world)

    def run(self) -> None:
        world, dice = self.world, self.dice
        if dice.random() < 0.2:
            world.max_priority = 2
        if dice.random() < 0.3:
            world.transient_chance = 0.3
        if dice.random() < 0.1:
            world.mirroring = replace(world.mirroring, promotes_unsynced_on_failure=True)
        self._needs_ack = dice.random() < 0.9
        world.start()
        world.every(dice.randint(10_000, 60_000), self._publish)
        world.every(dice.randint(5_000, 60_000), self._consume)
        world.run(QUIET_US)
        world.every(dice.randint(200_000, 1_200_000), self.harm.strike)
        world.run(HARM_US)
        world.make_peace()
        world.come_to_rest()
        world.witness.reckon()

    def _publish(self) -> None:
        world = self.world
        if not world.is_peaceful:
            world.publishers.publish(world.nodes[self.dice.choice(list(world.nodes))])

    def _consume(self) -> None:
        if not self.world.is_peaceful:
            self.world.consume(self._needs_ack)


def simulate(seed: int) -> Run:
    """Raises Violation, with the story of the run."""
    run = Run(seed)
    try:
        run.run()
    except Exception as error:
        story = "\n".join(run.harm.story)
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}\n{story}") from error
    return run
