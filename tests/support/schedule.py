"""Schedule of a simulated world: time and chance, all of it decided by one seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable


class EndlessWorld(Exception):
    """More happened than ever should: something goes round in circles."""


class Schedule:
    """Runs the action that is due next, and nothing else, so that a seed decides everything."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_us = 0
        self.steps = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = 0

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self._counter += 1
        heapq.heappush(self._due, (self.now_us + delay_us, self._counter, action))

    def soon(self, delay_us_max: int, action: Callable[[], None]) -> None:
        self.after(self.random.randint(1, delay_us_max), action)

    def run(self, steps_max: int, until_us: int | None = None) -> None:
        """Until nothing is due any more, or not before then."""
        while self._due and (until_us is None or self._due[0][0] <= until_us):
            self.now_us, _, action = heapq.heappop(self._due)
            self.steps += 1
            if self.steps > steps_max:
                raise EndlessWorld(f"seed {self.seed}: still busy after {steps_max} steps")
            action()
        if until_us is not None:
            self.now_us = max(self.now_us, until_us)
