"""What happened in simulated lives, in numbers: that much was tried before it was called good."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster_simulation.world import World


@dataclass(frozen=True)
class Summary:
    runs: int = 0
    published: int = 0
    confirmed: int = 0
    acknowledged: int = 0
    promotions: int = 0
    simulated_s: int = 0

    @classmethod
    def of(cls, world: World) -> Summary:
        witness = world.witness
        return cls(
            1,
            world.published,
            len(witness.confirmed),
            len(witness.acknowledged),
            witness.promotions,
            world.schedule.now_us // 1_000_000,
        )

    def __add__(self, other: Summary) -> Summary:
        return Summary(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        return (
            f"{self.published} messages published, {self.confirmed} confirmed, "
            f"{self.acknowledged} acknowledged, {self.promotions} promotions, "
            f"{self.simulated_s} simulated seconds"
        )
