"""How far every node's topology has come, and waiting until all have come as far.

`bind-ok` promises that a publish routes from now on, wherever the publisher is connected. The store
tells all nodes of a change, but each in its own time. So whoever made the change waits until every
node that has a session says that it has applied it. A node that dies meanwhile is no longer waited
for; one that lives but cannot be heard is waited for only so long, since a client is waiting too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class Signal(Awaitable[None], Protocol):
    """What is needed of a future."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...


class TopologyBarrier:
    def __init__(self, make_signal: Callable[[], Signal]) -> None:
        self._make_signal = make_signal
        self._applied: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        self._waiting: dict[object, tuple[int, Signal]] = {}

    def joined(self, node: str) -> None:
        """What it said before counts: it may have known of its own session before we did."""
        self._applied.setdefault(node, self._heard.get(node, 0))

    def left(self, node: str) -> None:
        self._applied.pop(node, None)
        self._wake()

    def heard(self, node: str, revision: int) -> None:
        """A node that has no session yet, or none any more, is not waited for."""
        self._heard[node] = max(self._heard.get(node, 0), revision)
        if node in self._applied:
            self._applied[node] = self._heard[node]
            self._wake()

    def is_anyone_behind(self, revision: int) -> bool:
        return any(applied < revision for applied in self._applied.values())

    def has_applied(self, node: str, revision: int) -> bool:
        """True if a node that has a session has come that far."""
        return self._applied.get(node, -1) >= revision

    def behind(self, revision: int) -> list[str]:
        """Who has not come that far."""
        return sorted(node for node, applied in self._applied.items() if applied < revision)

    async def wait(self, revision: int) -> None:
        """Until nobody is behind; bounding the time is up to the caller."""
        if not self.is_anyone_behind(revision):
            return
        token, signal = object(), self._make_signal()
        self._waiting[token] = (revision, signal)
        try:
            await signal
        finally:
            del self._waiting[token]

    def stop_waiting(self) -> None:
        for _, signal in self._waiting.values():
            if not signal.done():
                signal.set_result(None)

    def _wake(self) -> None:
        slowest = min(self._applied.values(), default=None)
        for revision, signal in self._waiting.values():
            if not signal.done() and (slowest is None or slowest >= revision):
                signal.set_result(None)
