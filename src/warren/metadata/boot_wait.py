"""How long a starting node waits for its metadata: in attempts, each of which is told.

Nodes and etcd may be started in any order, and after a power cut they are. So a node whose etcd
does not answer yet waits instead of giving up, as a node of RabbitMQ waits for the one that was
last to go; and gives up in the end, since an address may as well be wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from warren.metadata.store import MetadataUnavailable


@dataclass(frozen=True, slots=True)
class BootWait:
    attempt_s: float
    attempts: int
    tell: Callable[[int], None] = lambda left: None
    """Called before each attempt, with how many will be left after it."""

    async def until_answered(self, attempt: Callable[[float], Awaitable[None]]) -> None:
        """`attempt` gets the time it may take. Raises the last of its failures."""
        with suppress(MetadataUnavailable):
            await attempt(0.0)
            return
        for left in reversed(range(self.attempts)):
            self.tell(left)
            try:
                await attempt(self.attempt_s)
                return
            except MetadataUnavailable:
                if not left:
                    raise
