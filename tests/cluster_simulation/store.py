"""A store like etcd: an ordered map with versions, leases that end, and a history that is kept.

Nodes reach it through a `StoreClient` each (`store_client`), late, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from support.schedule import Schedule
from warren.cluster.sessions import Session, decode_session
from warren.metadata.keys import KeyKind, node_key, parse_key
from warren.metadata.store import (
    Change,
    Check,
    Lease,
    LeaseLost,
    Operation,
    Put,
    Record,
)

DELAY_US: Final = 2_000
"""The longest that a request or an answer takes, unless the store is slow."""


class EtcdLike:
    """`on_group` is told of every record of a group that replaces another, or ends."""

    def __init__(self, schedule: Schedule, on_group: Callable[[bytes | None, bytes | None], None]):
        self.schedule = schedule
        self.records: dict[str, Record] = {}
        self.history: list[tuple[Change, ...]] = []
        """Changes of each revision: the first one is that of revision 1."""
        self.compacted = 0
        """Up to this revision the history is gone."""
        self.delay_us_max = DELAY_US
        self.is_down = False
        self.watchers: list[Callable[[], None]] = []
        self._on_group = on_group
        self._lease_ids = 0
        self._expiry_us: dict[int, int] = {}
        self._lease_of: dict[str, int] = {}

    @property
    def revision(self) -> int:
        return len(self.history)

    # Transactions.

    def commit(self, checks: Sequence[Check], operations: Sequence[Operation]) -> int | None:
        """Return the revision of the change; None if a check does not hold. Raises LeaseLost."""
        for operation in operations:
            lease = operation.lease if isinstance(operation, Put) else None
            if lease is not None and lease.id not in self._expiry_us:
                raise LeaseLost(f"lease {lease.id} has ended")
        if any(self.version_of(check.key) != check.version for check in checks):
            return None
        changes = [c for operation in operations if (c := self._apply(operation)) is not None]
        if changes:
            self._tell(tuple(changes))
        return self.revision

    def version_of(self, key: str) -> int:
        record = self.records.get(key)
        return 0 if record is None else record.version

    def _apply(self, operation: Operation) -> Change | None:
        key = operation.key
        before = self.records.get(key)
        if isinstance(operation, Put):
            lease = operation.lease
            self._lease_of.pop(key, None)
            if lease is not None:
                self._lease_of[key] = lease.id
            record = Record(key, operation.value, self.revision + 1)
            self._note_group(key, before, record)
            self.records[key] = record
            return Change(key, record)
        if before is None:
            return None
        self._note_group(key, before, None)
        self._lease_of.pop(key, None)
        del self.records[key]
        return Change(key, None)

    def _note_group(self, key: str, before: Record | None, after: Record | None) -> None:
        parsed = parse_key(key)
        if parsed is not None and parsed.kind is KeyKind.GROUP:
            self._on_group(
                None if before is None else before.value, None if after is None else after.value
            )

    def _tell(self, changes: tuple[Change, ...]) -> None:
        self.history.append(changes)
        for tell in self.watchers:
            tell()

    def compact(self) -> None:
        self.compacted = self.revision

    # Leases.

    def grant(self, ttl_s: float) -> Lease:
        self._lease_ids += 1
        lease = Lease(self._lease_ids, ttl_s)
        self._renew(lease)
        return lease

    def keep_alive(self, lease: Lease) -> None:
        if lease.id not in self._expiry_us:
            raise LeaseLost(f"lease {lease.id} has ended")
        self._renew(lease)

    def _renew(self, lease: Lease) -> None:
        ttl_us = round(lease.ttl_s * 1_000_000)
        self._expiry_us[lease.id] = self.schedule.now_us + ttl_us
        self.schedule.after(ttl_us, lambda: self._expire(lease.id))

    def _expire(self, lease_id: int) -> None:
        is_due = self._expiry_us.get(lease_id, self.schedule.now_us + 1) <= self.schedule.now_us
        if is_due and not self.is_down:
            self.revoke(lease_id)

    def revoke(self, lease_id: int) -> None:
        if self._expiry_us.pop(lease_id, None) is None:
            return
        keys = [key for key, holder in self._lease_of.items() if holder == lease_id]
        for key in keys:
            del self._lease_of[key]
            self._note_group(key, self.records[key], None)
            del self.records[key]
        if keys:
            self._tell(tuple(Change(key, None) for key in keys))

    def go_down(self) -> None:
        """Nobody can reach the store, and it counts no time."""
        self.is_down = True

    def come_back(self, ttl_s: float) -> None:
        """Leases begin anew, as etcd's do when a majority is there again."""
        self.is_down = False
        for lease_id in tuple(self._expiry_us):
            self._renew(Lease(lease_id, ttl_s))

    # What a witness or a script looks at.

    def session_of(self, node: str) -> Session | None:
        record = self.records.get(node_key(node))
        return None if record is None else decode_session(record.value)

    def end_session(self, node: str, incarnation: str) -> None:
        session = self.session_of(node)
        if session is not None and session.incarnation == incarnation:
            self.revoke(session.lease)
