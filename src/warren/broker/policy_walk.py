"""Giving queues and exchanges their new settings after a policy has changed.

There may be tens of thousands, so they are visited some per turn of the loop. Should a policy
change meanwhile, the walk begins anew: whatever happens, the last word is the last policy's. Nobody
has to wait for the walk to know what applies, only for the effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from warren.broker.topology import Topology
from warren.model.clock import Clock

OBJECTS_PER_TURN_MAX: Final = 128


class PolicyWalk:
    def __init__(self, topology: Topology, clock: Clock) -> None:
        self._topology = topology
        self._clock = clock
        self._left: Iterator[None] | None = None
        self._is_scheduled = False

    @property
    def is_done(self) -> bool:
        return self._left is None

    def start(self) -> None:
        """Visits the first of them at once: most virtual hosts have no more."""
        self._left = self._visits()
        self._step()

    def _go_on(self) -> None:
        self._is_scheduled = False
        self._step()

    def _step(self) -> None:
        if self._left is None:
            return
        visited = sum(1 for _ in islice(self._left, OBJECTS_PER_TURN_MAX))
        if visited < OBJECTS_PER_TURN_MAX:
            self._left = None
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_later(0, self._go_on)

    def _visits(self) -> Iterator[None]:
        topology = self._topology
        for name in tuple(topology.exchanges):
            topology.renew_exchange(name)
            yield
        for name in topology.queue_names():
            topology.renew_queue(name)
            yield
