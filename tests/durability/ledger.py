"""What a broker owes its clients: every message ever published, and what became of it.

The ledger stays in the process that publishes and consumes, so a killed broker cannot take it
along. Everything is written down before it is done: a publish before it is sent, since it may
arrive though no answer comes; an acknowledgement too, since it may have been the last thing the
broker wrote.

What is promised, and checked:

1. A persistent message that was confirmed, and neither acknowledged nor expired, is there.
2. An acknowledged one may come back after a crash: an acknowledgement is not confirmed. One that
   was seen to be missing never comes back, unless that was known from what was not on the disk.
   Nor does one that was acknowledged before, on the same channel, something was published that
   has been confirmed: both are in one journal.
3. Transient messages are gone after a restart.
4. What comes is what was published, byte by byte, and each message of a queue comes once until it
   was requeued. One that is not marked redelivered has never been seen before; after a crash all
   are marked.
5. Messages of one producer in one queue, of one priority, are in the order of publishing.
6. An expired message is not delivered, though the broker was down when its time came.
7. A queue with a length limit, one producer and no consumer misses only messages after which as
   many were published as there is room for. Those may be there or not: a message pushed out
   before it was written is confirmed and never written, and a crash may bring back older ones.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

EXPIRED_SLACK_S: Final = 20.0
EXPIRED_EARLY_S: Final = 0.5
PROBLEMS_MAX: Final = 20
LOST_SHOWN_MAX: Final = 12


class Publication(NamedTuple):
    """As it was sent: `producer` and `number` say who sent it and when."""

    producer: str
    number: int
    size: int
    priority: int = 0
    is_persistent: bool = True
    lifetime_ms: int | None = None

    @property
    def id(self) -> str:
        return f"{self.producer}.{self.number}"

    @property
    def body(self) -> bytes:
        """Different for each, but for the shortest."""
        block = f"{self.id} ".encode() * 40
        return (block * (self.size // len(block) + 1))[: self.size]


class Delivery(NamedTuple):
    id: str
    body: bytes
    redelivered: bool


@dataclass(slots=True)
class Entry:
    """A message in one queue."""

    publication: Publication
    expires_at_s: float | None
    is_confirmed: bool = False
    is_acknowledged: bool = False
    is_settled: bool = False
    was_seen: bool = False
    was_in_a_crash: bool = False

    def may_be_expired(self, now_s: float) -> bool:
        return self.expires_at_s is not None and now_s > self.expires_at_s - EXPIRED_EARLY_S

    def must_be_expired(self, now_s: float) -> bool:
        return self.expires_at_s is not None and now_s > self.expires_at_s + EXPIRED_SLACK_S

    def must_be_there(self, now_s: float) -> bool:
        return (
            self.is_confirmed
            and self.publication.is_persistent
            and not self.is_acknowledged
            and not self.may_be_expired(now_s)
        )

    @property
    def lane(self) -> tuple[str, int]:
        """Order is promised within it."""
        return self.publication.producer, self.publication.priority


@dataclass
class Ledger:
    queues: dict[str, dict[str, Entry]] = field(default_factory=lambda: defaultdict(dict))
    problems: list[str] = field(default_factory=list)
    confirmed: int = 0
    delivered: int = 0
    settled: int = 0
    length_limits: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(lambda: -1))

    def _complain(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    # What clients do, noted before they do it.

    def publish(self, publication: Publication, queues: Iterable[str]) -> None:
        lifetime_ms = publication.lifetime_ms
        expires_at_s = None if lifetime_ms is None else time.monotonic() + lifetime_ms / 1000
        with self._lock:
            for queue in queues:
                self.queues[queue][publication.id] = Entry(publication, expires_at_s)

    def confirm(self, publication: Publication, queues: Iterable[str]) -> None:
        with self._lock:
            self.confirmed += 1
            for queue in queues:
                self.queues[queue][publication.id].is_confirmed = True

    def acknowledge(self, queue: str, ids: Iterable[str]) -> None:
        with self._lock:
            for id_ in ids:
                self.queues[queue][id_].is_acknowledged = True

    def settle(self, queue: str, id_: str) -> None:
        """Its acknowledgement is on the disk."""
        with self._lock:
            self.queues[queue][id_].is_settled = True
            self.settled += 1

    def forget(self, queue: str) -> None:
        """It was deleted, which is durable: nothing of it may come back."""
        with self._lock:
            self.queues[queue].clear()

    # What the broker does.

    def deliver(self, queue: str, delivery: Delivery) -> None:
        """Under load, to the only consumer of the queue."""
        with self._lock:
            self.delivered += 1
            entry = self._check(queue, delivery)
            if entry is None or delivery.redelivered:
                return
            lane = (queue, *entry.lane)
            if entry.publication.number <= self._last[lane]:
                self._complain(f"{queue}: {delivery.id} came after {self._last[lane]}")
            self._last[lane] = entry.publication.number

    def _check(self, queue: str, delivery: Delivery) -> Entry | None:
        entry = self.queues[queue].get(delivery.id)
        if entry is None:
            self._complain(f"{queue}: {delivery.id!r} is back, or was never here")
            return None
        if entry.is_settled:
            self._complain(f"{queue}: {delivery.id} is back though its ack was on the disk")
        if delivery.body != entry.publication.body:
            self._complain(f"{queue}: {delivery.id} is not what was published")
        if not delivery.redelivered and entry.was_seen:
            self._complain(f"{queue}: {delivery.id} came again, and not marked redelivered")
        if entry.must_be_expired(time.monotonic()):
            self._complain(f"{queue}: {delivery.id} was delivered long after it expired")
        entry.was_seen = True
        return entry

    def inspect(self, queue: str, found: Sequence[Delivery], is_safe: bool) -> None:
        """All that a restarted broker has in a queue, in order, before anybody else uses it.

        `is_safe`: what is there is on the disk, confirmed or not, and so owed from now on; and what
        is not there is gone for good.
        """
        with self._lock:
            entries = self.queues[queue]
            ids = {delivery.id for delivery in found}
            if len(ids) < len(found):
                self._complain(f"{queue}: {len(found) - len(ids)} messages came twice")
            for delivery in found:
                self._inspect_one(queue, delivery)
            self._check_order(queue, [entries[d.id] for d in found if d.id in entries])
            self._check_losses(queue, ids)
            left = {}
            for id_, entry in entries.items():
                if id_ in ids:
                    entry.is_acknowledged = False
                    entry.is_confirmed |= is_safe
                if id_ in ids or (entry.is_acknowledged and not is_safe):
                    left[id_] = entry
            self.queues[queue] = left

    def _inspect_one(self, queue: str, delivery: Delivery) -> None:
        entry = self._check(queue, delivery)
        if entry is None:
            return
        if not entry.publication.is_persistent:
            self._complain(f"{queue}: {delivery.id} is transient and survived")
        if entry.was_in_a_crash and not delivery.redelivered:
            self._complain(f"{queue}: {delivery.id} survived a crash and is not marked")

    def _check_order(self, queue: str, entries: list[Entry]) -> None:
        last: dict[tuple[str, int], int] = {}
        for entry in entries:
            number = entry.publication.number
            if number < last.get(entry.lane, -1):
                self._complain(f"{queue}: {entry.publication.id} is out of order")
            last[entry.lane] = number

    def _check_losses(self, queue: str, ids: set[str]) -> None:
        now_s = time.monotonic()
        lost = [i for i, e in self.queues[queue].items() if i not in ids and e.must_be_there(now_s)]
        if queue in self.length_limits:
            lost = self._not_pushed_out(queue, lost)
        if lost:
            shown = [str(self.queues[queue][id_]) for id_ in lost[:LOST_SHOWN_MAX]]
            self._complain("\n  ".join([f"{queue}: LOST {len(lost)} confirmed messages", *shown]))

    def _not_pushed_out(self, queue: str, lost: list[str]) -> list[str]:
        """Those after which fewer messages were published than the queue has room for."""
        alive = [
            (e.publication.number, i)
            for i, e in self.queues[queue].items()
            if not e.is_acknowledged
        ]
        newest = {id_ for _, id_ in sorted(alive)[-self.length_limits[queue] :]}
        return [id_ for id_ in lost if id_ in newest]

    def crashed(self) -> None:
        """Everything that is still there has been through it."""
        with self._lock:
            for entries in self.queues.values():
                for entry in entries.values():
                    entry.was_in_a_crash = True

    @property
    def owed(self) -> int:
        now_s = time.monotonic()
        return sum(e.must_be_there(now_s) for q in self.queues.values() for e in q.values())
