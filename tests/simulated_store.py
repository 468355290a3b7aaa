"""Virtual time, and a store like etcd that lives in it: for `cluster_simulation`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from warren.mirror.group_record import GroupRecord, SessionGone

if TYPE_CHECKING:
    from simulated_node import SimNode

LEASE_MS: Final = 6_000


class Violation(AssertionError):
    """The cluster did what it must never do."""


class Schedule:
    """What happens next; time is virtual."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_ms: float, do: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (self.now_ms + delay_ms, self._count, do))

    def run_until(self, end_ms: float) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, do = heappop(self._events)
            do()
        self.now_ms = end_ms

    def delay(self, low_ms: float, high_ms: float) -> float:
        return self.random.uniform(low_ms, high_ms)


@dataclass
class Stored:
    record: GroupRecord | None = None
    revision: int = 0


class SimStore:
    """etcd: one record, sessions with leases, and watchers that hear everything in order, late."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.stored = Stored()
        self.revision = 0
        self.sessions: dict[str, str] = {}
        self._expiry: dict[str, float] = {}
        self.nodes: dict[str, SimNode] = {}

    def keep_alive(self, node: str, incarnation: str) -> bool:
        if self.sessions.get(node) != incarnation:
            return False
        self._expiry[node] = self.schedule.now_ms + LEASE_MS
        return True

    def open_session(self, node: str, incarnation: str) -> bool:
        if node in self.sessions:
            return False
        self.sessions[node] = incarnation
        self._expiry[node] = self.schedule.now_ms + LEASE_MS
        self.revision += 1
        self._tell(lambda each: each.session_opened(node, incarnation))
        return True

    def end_session(self, node: str, incarnation: str) -> None:
        if self.sessions.get(node) != incarnation:
            return
        del self.sessions[node], self._expiry[node]
        self.revision += 1
        self._tell(lambda each: each.session_ended(node, incarnation))

    def expire(self) -> None:
        for node, expiry in tuple(self._expiry.items()):
            if expiry <= self.schedule.now_ms:
                self.end_session(node, self.sessions[node])

    def commit(
        self, record: GroupRecord, revision: int | None, gone: tuple[SessionGone, ...]
    ) -> bool:
        if (revision or 0) != self.stored.revision:
            return False
        if any(self.sessions.get(each.node) == each.incarnation for each in gone):
            return False
        self._check(record)
        self.revision += 1
        self.stored = Stored(record, self.revision)
        stored = self.stored
        self._tell(lambda each: each.record_stored(stored))
        return True

    def _check(self, record: GroupRecord) -> None:
        old = self.stored.record
        if old is None:
            return
        if record.view <= old.view or record.epoch < old.epoch:
            raise Violation(f"view or epoch went back: {old} -> {record}")
        if record.leader != old.leader:
            if record.epoch <= old.epoch:
                raise Violation("E1: two leaders in one epoch")
            if record.leader not in old.insync and record.leader.split("/")[0] not in {
                each.split("/")[0] for each in old.insync
            }:
                raise Violation("E5: a leader that was not in sync")

    def _tell(self, what: Callable[[SimNode], None]) -> None:
        for node in self.nodes.values():
            node.inbox_of_store.append(what)
            node.read_store_soon()
