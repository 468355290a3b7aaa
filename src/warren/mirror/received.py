"""A batch of the master's on its way to a mirror's disk: the `Publisher` of its messages."""

from __future__ import annotations

from collections.abc import Callable


class Received:
    """`on_safe` is called when the last of its messages is; `unsafe` says how many are not."""

    def __init__(
        self, number: int, on_safe: Callable[[], None], on_failed: Callable[[], None]
    ) -> None:
        self.number = number
        self.unsafe = 0
        self._on_safe = on_safe
        self._on_failed = on_failed

    def confirmed(self, sequence: int) -> None:
        self.unsafe -= 1
        if self.unsafe == 0:
            self._on_safe()

    def rejected(self, sequence: int) -> None:
        self._on_failed()
