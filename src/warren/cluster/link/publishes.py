"""What arrived for one queue from one other node: numbered, taken once, answered in order.

Publishes of a link are numbered by counting, from 1, for as long as the asking process lives (its
`origin`). A link may break and be made anew in between, and the asking node may lose its session
and begin another; then the asker sends again what it has no answer to, starting behind the last
number that arrived here (`received`). So each publish is taken exactly once, and an answer that was
lost with the link is given again, when it is due: what was on its way to mirrors still is.

Answers are cumulative: a publish is confirmed when all before it are settled too. On the way to a
disk they settle in that order anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warren.model.limits import LINK_UNCONFIRMED_MAX
from warren.queues.boundary import PENDING, REJECTED, AbstractQueue
from warren.wire.codec import Message, OutputBuffer


class LinkPublishes:
    """The `Publisher` of everything that comes for a queue over the links of one node."""

    def __init__(self, queue: AbstractQueue, origin: str, received: int = 0) -> None:
        self.queue = queue
        self.origin = origin
        """The node, and the life of it, that counts."""
        self.received = received
        self.doubtful = 0
        """Up to here, a former master of the queue may have delivered what is published."""
        self._told = 0
        self._pending: dict[int, None] = {}
        self._refused: dict[int, None] = {}
        self._is_due = False
        self._on_due: Callable[[], None] | None = None

    def attach(self, lowest: int, on_due: Callable[[], None]) -> None:
        """A new link: what is below `lowest` has been heard, all else is to be told (again)."""
        # The asker has given up on what is below `lowest` and did not arrive: nobody waits for it.
        self.received = max(self.received, lowest - 1)
        self._told = lowest - 1
        self._is_due = False
        self._on_due = on_due
        self._become_due()

    def wait_for_all(self, lowest: int) -> bool:
        """What has been received is not known to be safe yet; False if nobody waits for it.

        `confirmed(lowest)` says that it is.
        """
        if lowest > self.received:
            return False
        self._pending = {lowest: None}
        return True

    def detach(self) -> None:
        self._on_due = None

    def publish(self, message: Message) -> None:
        number = self.received + 1
        self.received = number
        self.queue.counters.publish += 1
        if number <= self.doubtful:
            outcome = self.queue.publish_again(message, self, number)
        else:
            outcome = self.queue.publish(message, self, number)
        if outcome == PENDING:
            self._pending[number] = None
            return  # `confirmed` or `rejected` comes, and there is nothing to tell before
        if outcome == REJECTED:
            self._refuse(number)
        if not self._is_due:
            self._become_due()

    def confirmed(self, sequence: int) -> None:
        self._pending.pop(sequence, None)
        if not self._is_due:
            self._become_due()

    def rejected(self, sequence: int) -> None:
        if sequence in self._pending:
            del self._pending[sequence]
            self._refuse(sequence)
            self._become_due()

    def flush(self, handle: int, output: OutputBuffer) -> None:
        """Tell what is settled, as far as it has no gap."""
        self._is_due = False
        settled = self.received
        if self._pending:
            settled = next(iter(self._pending)) - 1
        if settled <= self._told:
            return
        if self._refused:
            self._tell_refused(handle, output, settled)
        if settled > self._told:
            output.ack(handle, settled, True)
            self._told = settled

    def _tell_refused(self, handle: int, output: OutputBuffer, settled: int) -> None:
        for refused in sorted([n for n in self._refused if self._told < n <= settled]):
            if refused - 1 > self._told:
                output.ack(handle, refused - 1, True)
            output.nack(handle, refused, False)
            self._told = refused

    def _become_due(self) -> None:
        if self._on_due is not None and not self._is_due:
            self._is_due = True
            self._on_due()

    def _refuse(self, number: int) -> None:
        self._refused[number] = None
        while len(self._refused) > LINK_UNCONFIRMED_MAX:
            del self._refused[next(iter(self._refused))]


def still_asked_about(
    inboxes: Mapping[AbstractQueue, LinkPublishes],
) -> dict[AbstractQueue, LinkPublishes]:
    """Return those that a node with another session may ask about: its process may be the same."""
    return {
        queue: inbox for queue, inbox in inboxes.items() if inbox.origin and not queue.is_deleted
    }
