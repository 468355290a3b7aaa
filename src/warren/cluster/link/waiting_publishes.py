"""What becomes of publishes when their queue leaves this node."""

from __future__ import annotations

from typing import Protocol

from warren.queues.boundary import Publisher
from warren.wire.codec import Message


class Waiting(Protocol):
    """A publish that this node took as the queue's master, and has not confirmed."""

    @property
    def number(self) -> int: ...
    @property
    def publisher(self) -> Publisher: ...
    @property
    def sequence(self) -> int: ...
    @property
    def message(self) -> Message: ...
