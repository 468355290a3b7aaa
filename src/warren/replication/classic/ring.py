"""The ring of a mirrored queue, as its master sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from warren.replication.classic.master import MasterBacking


class Ring(Protocol):
    """How a master reaches its mirrors."""

    def broadcast(self, payload: bytes) -> None: ...

    def flush_due(self, master: MasterBacking, urgency: int) -> None:
        """Have `flush` called when it is so urgent: see `outbox`."""
        ...

    def covered(self, member: str) -> None:
        """The member lacks nothing any more."""
        ...

    def refused(self) -> bool:
        """The disk here takes nothing: True if a mirror is about to lead, and answers."""
        ...
