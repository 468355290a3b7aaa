"""Safe dead letters: at-least-once, as `dead-letter-strategy` of a quorum queue says.

A message that died stays in its queue, as one that somebody has and has not acknowledged, until
every queue that the dead-letter exchange routes it to has confirmed it. Where there is no such
queue, or one refuses it, it is tried again after a while. After a failover or a restart it is in
its queue as any unacknowledged message is, and consumers get it once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from warren.broker.dead_lettering import compose_dead
from warren.model.logs import EventLog
from warren.queues.boundary import REJECTED, TAKEN
from warren.queues.host import DeathReason
from warren.queues.queue import Queue
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

RETRY_MS: Final = 5_000

_log = EventLog("queue")


class SafeDeadLetter:
    """The `Publisher` of one message that died; `find` returns the queue's virtual host."""

    def __init__(
        self,
        queue: Queue,
        queued: QueuedMessage,
        reason: DeathReason,
        find: Callable[[], VirtualHost | None],
    ) -> None:
        self.origin: str | None = None
        self._queue = queue
        self._queued = queued
        self._reason = reason
        self._find = find
        self._have: set[str] = set()
        """Names of the queues that have it."""
        self._asked: dict[int, str] = {}
        """By number of the publish: the queue that has not answered yet."""
        self._number = 0
        self._is_refused = False

    def begin(self) -> None:
        if not self._queue.is_deleted:
            self._queue.backing.load_unacked([self._queued], self._publish)

    def _publish(self, loaded: list[QueuedMessage]) -> None:
        vhost = self._find()
        if self._queue.is_deleted or vhost is None:
            return
        if not loaded:  # its body is lost: there is nothing to send
            self._queue.acked([self._queued])
            return
        dead = compose_dead(vhost, self._queue, loaded[0].message, self._reason)
        if dead is None or not dead.queues:
            _log.warning(
                "dead letter waits: its exchange is not there, or routes it to no queue",
                queue=str(self._queue.record), exchange=self._queue.settings.dead_letter_exchange,
            )  # fmt: skip
            self._try_later()
            return
        self._is_refused = False
        for target in dead.queues:
            name = target.record.name
            if name in self._have:
                continue
            self._number += 1
            self._asked[self._number] = name
            outcome = target.publish(dead.message, self, self._number)
            if outcome == TAKEN:
                self._answered(self._number, is_safe=True)
            elif outcome == REJECTED:
                self._answered(self._number, is_safe=False)
        self._see()

    def confirmed(self, sequence: int) -> None:
        self._answered(sequence, is_safe=True)
        self._see()

    def rejected(self, sequence: int) -> None:
        self._answered(sequence, is_safe=False)
        self._see()

    def _answered(self, number: int, *, is_safe: bool) -> None:
        name = self._asked.pop(number, None)
        if name is None:
            return
        if is_safe:
            self._have.add(name)
        else:
            self._is_refused = True

    def _see(self) -> None:
        """All have answered: the message is done with, or is tried again."""
        if self._asked:
            return
        if self._is_refused:
            self._try_later()
        elif not self._queue.is_deleted:
            self._queue.acked([self._queued])

    def _try_later(self) -> None:
        self._queue.host.clock.call_later(RETRY_MS, self.begin)
