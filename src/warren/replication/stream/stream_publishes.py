"""What is published to a mirrored stream, until it has an offset and everybody has it."""

from __future__ import annotations

from collections.abc import Callable

from warren.queues.boundary import Publisher
from warren.replication.classic.batch import Unconfirmed
from warren.replication.classic.instructions import OriginRun
from warren.replication.classic.master import MESSAGE_BYTES
from warren.wire.codec import Message


class Waiting(Unconfirmed):
    """A publish that has no offset yet, and to the stream's backing the publisher of it."""

    def __init__(
        self, publisher: Publisher, numbers: tuple[int, int], message: Message, run: OriginRun
    ) -> None:
        super().__init__(publisher, numbers[0], numbers[1], message)
        self.origin: str | None = run[0]
        self.run = run
        self.on_rejected: Callable[[int], None] | None = None

    def confirmed(self, sequence: int) -> None:
        self.publisher.confirmed(self.sequence)

    def rejected(self, sequence: int) -> None:
        if self.on_rejected is not None:
            self.on_rejected(charge_of(self.message))
        self.publisher.rejected(self.sequence)


def charge_of(message: Message) -> int:
    return len(message.body) + MESSAGE_BYTES


def runs_of(waiting: list[Waiting]) -> tuple[OriginRun, ...]:
    """Whose publishes they are, in order."""
    runs: list[OriginRun] = []
    for each in waiting:
        origin, number, _ = each.run
        if runs and runs[-1][0] == origin and sum(runs[-1][1:]) == number:
            runs[-1] = (origin, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append(each.run)
    return tuple(runs)
