"""Network of a simulated world: links at any speed, broken and cut in every way.

A link goes one way, from one node to another, so a partition can be one-way and partial. What is
sent over it arrives in order, or not at all; if something was lost, the sender is told that the
link is up (again) once things arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from support.schedule import Schedule


@dataclass
class _Link:
    life: int = 0
    is_cut: bool = False
    busy_until_us: int = 0
    delay_us_max: int = 1_000


@dataclass
class Network:
    """`on_down` and `on_up` are told the sender and the node that it sends to."""

    schedule: Schedule
    deliver: Callable[[str, str, object], None]
    on_down: Callable[[str, str], None]
    on_up: Callable[[str, str], None]
    duplicate_chance: float = 0.0
    _links: dict[tuple[str, str], _Link] = field(default_factory=dict)

    def send(self, source: str, target: str, message: object) -> None:
        link = self._link(source, target)
        if link.is_cut:
            return
        copies = 2 if self.schedule.random.random() < self.duplicate_chance else 1
        for _ in range(copies):
            self._travel(source, target, link, message)

    def _travel(self, source: str, target: str, link: _Link, message: object) -> None:
        now = self.schedule.now_us
        delay = self.schedule.random.randint(1, link.delay_us_max)
        arrives_us = max(now + delay, link.busy_until_us)
        link.busy_until_us = arrives_us
        life = link.life

        def arrive() -> None:
            if life == link.life:
                self.deliver(source, target, message)

        self.schedule.after(arrives_us - now, arrive)

    def slow_down(self, source: str, target: str, delay_us_max: int) -> None:
        self._link(source, target).delay_us_max = delay_us_max

    def reset(self, source: str, target: str, is_noticed: bool = True) -> None:
        """All that is on its way is lost, and a new link is there at once."""
        link = self._link(source, target)
        self._break(link)
        if is_noticed:
            self.on_down(source, target)
        if not link.is_cut:
            self._come_up(source, target, link)

    def cut(self, source: str, target: str, is_noticed: bool = True) -> None:
        """Nothing gets through from now on; what is on its way does not, either."""
        link = self._link(source, target)
        link.is_cut = True
        self._break(link)
        if is_noticed:
            self.on_down(source, target)

    def mend(self, source: str, target: str) -> None:
        link = self._link(source, target)
        if link.is_cut:
            link.is_cut = False
            self._come_up(source, target, link)

    def mend_all(self) -> None:
        for (source, target), link in self._links.items():
            link.delay_us_max = min(link.delay_us_max, 1_000)
            self.mend(source, target)

    def _break(self, link: _Link) -> None:
        link.life += 1
        link.busy_until_us = 0

    def _come_up(self, source: str, target: str, link: _Link) -> None:
        life = link.life

        def tell() -> None:
            if life == link.life and not link.is_cut:
                self.on_up(source, target)

        self.schedule.soon(5_000, tell)

    def _link(self, source: str, target: str) -> _Link:
        return self._links.setdefault((source, target), _Link())
