"""A run of one seed: work and harm for a while, then peace, then the reckoning."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from cluster_simulation.harm import Harm
from cluster_simulation.world import EVERYWHERE, World
from gm_invariants import Violation

QUIET_US: Final = 500_000
"""Before any harm is done."""
HARM_US: Final = 20_000_000
QUORUM_SHARE: Final = 0.1
DECLARE_US: Final = 150_000


class Run:
    """`is_quorum`: whether the queue is a quorum queue; one of ten is, if nobody says.

    `is_declared_late`: whether a client declares it while nodes run, with all its copies.
    """

    def __init__(
        self, seed: int, is_quorum: bool | None = None, is_declared_late: bool = False
    ) -> None:
        self.seed = seed
        # By dice of their own, so that all else of a life is as it was without quorum queues.
        share = Random(f"quorum {seed}").random()
        self.is_quorum = share < QUORUM_SHARE if is_quorum is None else is_quorum
        self.world = World(seed, nodes=2 + seed % 3)
        self.world.is_declared_late = is_declared_late
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
        world.is_lazy = dice.random() < 0.3
        if self.is_quorum:
            world.is_quorum, world.is_lazy, world.max_priority = True, False, None
            world.mirroring = EVERYWHERE
        no_ack = dice.random() < 0.1
        world.consumers = [(dice.randint(1, 20), no_ack) for _ in range(dice.randint(1, 2))]
        world.consumer_us_max = dice.choice([20_000, 300_000, 2_000_000])
        world.start()
        if world.is_declared_late:
            world.every(DECLARE_US, world.declare_late)
        world.every(dice.randint(20_000, 150_000), self._publish)
        world.run(QUIET_US)
        world.every(dice.randint(500_000, 3_000_000), self.harm.strike)
        world.run(HARM_US)
        world.make_peace()
        world.come_to_rest()
        world.witness.reckon()

    def _publish(self) -> None:
        world = self.world
        if not world.is_peaceful:
            process = world.nodes[self.dice.choice(list(world.nodes))].process
            if process is not None:
                for _ in range(self.dice.choice([1, 1, 3])):
                    process.client.publish()


def simulate(seed: int, is_quorum: bool | None = None, is_declared_late: bool = False) -> Run:
    """Raises Violation, with the harm that was done and what each node knows of the queue."""
    run = Run(seed, is_quorum, is_declared_late)
    try:
        run.run()
    except Exception as error:
        world, story = run.world, "\n".join(run.harm.story)
        now_ms = world.schedule.now_us // 1_000
        raise Violation(
            f"seed {seed} at {now_ms} ms: {type(error).__name__}: {error}\n\n"
            f"What was done:\n{story}\n\nWhat nodes tell (a second later by their clocks):\n"
            f"{world.stories()}"
        ) from error
    return run
