"""A batch of the master's on its way to a mirror's disk: the `Publisher` of its messages."""

from __future__ import annotations

from collections.abc import Callable

from warren.queues.boundary import RetryingPublisher


class Received(RetryingPublisher):
    """`on_safe` is called when the last of its messages is; `unsafe` says how many are not.

    `on_failed` is called whenever the disk has refused one. If this copy stays all the same, for
    nobody else has what it has, then the batch is held as soon as the disk takes it.
    """

    def __init__(
        self, number: int, on_safe: Callable[[], None], on_failed: Callable[[], None]
    ) -> None:
        self.number = number
        self.unsafe = 0
        self.is_awaited = True
        """True if there is more in it than removals, so that somebody may wait for it."""
        self._on_safe = on_safe
        self._on_failed = on_failed

    def confirmed(self, sequence: int) -> None:
        self.unsafe -= 1
        if self.unsafe == 0:
            self._on_safe()

    def rejected(self, sequence: int) -> None:
        self._on_failed()
