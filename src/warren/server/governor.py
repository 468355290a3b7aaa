"""Keeps messages from filling the memory: looks what is held, and has queues move some to disk.

How many and whose is decided in `flow/paging.py`. Looks come the more often the nearer memory is to
the threshold, so that what arrives between two of them cannot take the whole way to the limit; and
never so often that looking takes a noticeable share of the time.

With this node's disk alarm on, nothing is moved: the disk is what there is even less of.

Lazy queues need no orders. But what they have leaves memory when the journal is copied, and that
may be a long time coming on a quiet node; so if something waits for it, it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from warren.flow.memory import MemoryMonitor
from warren.flow.paging import RELAX_BELOW, orders
from warren.model.clock import Clock, TimerHandle
from warren.model.logs import EventLog
from warren.queues.boundary import AbstractQueue
from warren.queues.delivery import Deliveries
from warren.queues.queue import Queue
from warren.server.message_storage import MessageStorage
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import QueuedMessage

LOOK_MS_MIN: Final = 50
LOOK_MS_MAX: Final = 1_000
LOOK_TIME_SHARE_MAX: Final = 0.05
# Messages cannot come faster than that.
FILL_BYTES_PER_MS: Final = 500_000
# Memory must be below the threshold for so long before messages stay there again.
RELAX_AFTER_MS: Final = 5_000
UNACKED_SHARE: Final = 8
"""Of the threshold, bodies that clients have may take one part in so many."""
LAZY_WAITING_MAX: Final = 1_024
"""So many messages of lazy queues may stay in memory while more keep coming."""

_log = EventLog("paging")


class MemoryGovernor:
    def __init__(
        self,
        memory: MemoryMonitor,
        is_disk_short: Callable[[], bool],
        messages: MessageStorage,
        clock: Clock,
    ) -> None:
        self._memory = memory
        self._is_disk_short = is_disk_short
        self._messages = messages
        self._storages = messages.vhosts
        self._clock = clock
        self._timer: TimerHandle | None = None
        self._lazy_due_ms = 0
        self._relax_due_ms = 0
        self._lazy_published: dict[str, int] = {}
        self.is_saving = False
        self.deliveries: Callable[[], Iterable[Deliveries]] = list
        """All that clients have, and other nodes for theirs."""

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        began_s = time.monotonic()
        self.govern()
        now_ms = self._clock.now_ms()
        if now_ms >= self._lazy_due_ms:
            self._lazy_due_ms = now_ms + LOOK_MS_MAX
            self._empty_lazy_queues()
        took_ms = (time.monotonic() - began_s) * 1_000
        wait_ms = max(self._next_look_ms(), int(took_ms / LOOK_TIME_SHARE_MAX))
        self._timer = self._clock.call_later(wait_ms, self._look)

    def _next_look_ms(self) -> int:
        """Half the time it would take to get to the threshold; soon, if somebody waits."""
        if self._is_somebody_waiting():
            return LOOK_MS_MIN
        room = self._memory.paging_bytes - self._memory.used_bytes
        return min(max(room // FILL_BYTES_PER_MS // 2, LOOK_MS_MIN), LOOK_MS_MAX)

    def govern(self) -> None:
        now_ms = self._clock.now_ms()
        threshold = self._memory.paging_bytes
        used = self._memory.look(threshold)
        if self._is_disk_short():
            self._relax("free disk space is insufficient")
        elif used > threshold:
            self._save(used - threshold)
        if used >= RELAX_BELOW * threshold:
            self._relax_due_ms = now_ms + RELAX_AFTER_MS
        elif now_ms >= self._relax_due_ms:
            self._relax("memory use has fallen")
        self._messages.fit_credits(self._memory.limit_bytes)
        if self._is_somebody_waiting():
            for storage in self._storages.values():
                storage.scatter_now()

    def _is_somebody_waiting(self) -> bool:
        messages = self._messages
        return messages.index_credit.is_exhausted or messages.paging_credit.is_exhausted

    def _save(self, above_bytes: int) -> None:
        if not self.is_saving:
            self.is_saving = True
            _log.info(
                "messages are moved to disk",
                used_bytes=self._memory.used_bytes, threshold_bytes=self._memory.paging_bytes,
            )  # fmt: skip
        wanted = orders(self._backings(), above_bytes)
        for backing in wanted.queues:
            backing.save_memory(int(backing.staying_bytes * wanted.kept_share))
        self._drop_unacked()
        for storage in self._storages.values():
            storage.scatter_soon()

    def _drop_unacked(self) -> None:
        """Have the bodies of messages that clients have leave memory, if these are many bytes."""
        held = sum(b.unacked_bytes - b.unacked_bodiless_bytes for b in self._backings())
        if held < self._memory.paging_bytes // UNACKED_SHARE:
            return
        for deliveries in self.deliveries():
            runs: dict[AbstractQueue, list[QueuedMessage]] = {}
            for queued in deliveries.unacked.values():
                runs.setdefault(queued.holder.queue, []).append(queued)
            for queue, run in runs.items():
                if isinstance(queue, Queue):
                    queue.backing.drop_unacked(run)

    def _relax(self, reason: str) -> None:
        if not self.is_saving:
            return
        self.is_saving = False
        _log.info("messages may stay in memory", reason=reason, used_bytes=self._memory.used_bytes)
        for backing in self._backings():
            backing.use_memory()

    def _backings(self) -> Iterator[VariableQueue]:
        for storage in self._storages.values():
            yield from storage.backings.values()

    def _empty_lazy_queues(self) -> None:
        for vhost, storage in self._storages.items():
            waiting = sum(
                len(queue.back) + len(queue.leaving) + queue.places for queue in storage.lazy
            )
            published = sum(queue.next_sequence for queue in storage.lazy)
            is_quiet = published == self._lazy_published.get(vhost)
            self._lazy_published[vhost] = published
            if waiting and is_quiet:
                storage.scatter_now()
            elif waiting > LAZY_WAITING_MAX:
                storage.scatter_soon()
