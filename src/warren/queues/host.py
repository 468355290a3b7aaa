"""What a queue needs of its surroundings, given to it when it is made."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from warren.model.clock import Clock
from warren.queues.delivery import TurnClock
from warren.wire.codec import Message, QueuedMessage

if TYPE_CHECKING:
    from warren.queues.queue import Queue


class DeathReason(Enum):
    """Why a message is dead-lettered, in the words of the x-death header."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class QueueHost(Protocol):
    clock: Clock
    turn_clock: TurnClock

    def dead_letter(self, queue: Queue, messages: list[Message], reason: DeathReason) -> None:
        """Publish to the queue's dead-letter exchange, later in this turn of the loop."""
        ...

    def dead_letter_safely(
        self, queue: Queue, run: list[QueuedMessage], reason: DeathReason
    ) -> None:
        """Publish unacknowledged messages there, and acknowledge each when it is safe."""
        ...

    def unused(self, queue: Queue) -> None:
        """An auto-delete queue has lost its last consumer."""
        ...

    def expired(self, queue: Queue) -> None:
        """Nobody has used the queue for x-expires milliseconds."""
        ...
