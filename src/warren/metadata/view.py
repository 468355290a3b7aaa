"""The copy of the store in memory, and what a transaction would make of it. Pure.

`View` is the committed state. A `Draft` is a view with transactions laid over it that are not
committed yet: the members of a batch are judged one after another against the same draft, so
each sees its predecessors, and the whole draft is then either committed or thrown away.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from warren.metadata.store import (
    KEY_CHARS_MAX,
    TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    Change,
    Check,
    Lease,
    Operation,
    Put,
    Record,
)

# Sorts behind every character a key may have.
_AFTER_ASCII: Final = "\x80"


class Entry(NamedTuple):
    """A record and the lease it lives on; 0 means that it is durable."""

    record: Record
    lease_id: int


# What a transaction does, in its order: the new entry of each key, None if it is deleted.
Effects: TypeAlias = list[tuple[str, Entry | None]]


@dataclass(frozen=True, slots=True)
class Transaction:
    checks: tuple[Check, ...]
    changes: tuple[Operation, ...]
    keys: frozenset[str]

    @property
    def leases(self) -> list[Lease]:
        return [c.lease for c in self.changes if isinstance(c, Put) and c.lease is not None]

    @staticmethod
    def of(checks: Sequence[Check], changes: Sequence[Operation]) -> Transaction:
        if len(checks) + len(changes) > TRANSACTION_OPERATIONS_MAX:
            raise ValueError(f"a transaction has at most {TRANSACTION_OPERATIONS_MAX} operations")
        written = {change.key for change in changes}
        if len(written) != len(changes):
            raise ValueError("a transaction writes each key at most once")
        for change in changes:
            _require_size(change)
        keys = written.union(check.key for check in checks)
        return Transaction(tuple(checks), tuple(changes), frozenset(keys))


def _require_size(change: Operation) -> None:
    if not 0 < len(change.key) <= KEY_CHARS_MAX or not change.key.isascii():
        raise ValueError(f"a key has 1 to {KEY_CHARS_MAX} ASCII characters")
    if isinstance(change, Put) and len(change.value) > VALUE_BYTES_MAX:
        raise ValueError(f"the value of {change.key!r} is over {VALUE_BYTES_MAX} bytes")


class View:
    """The committed state: records in key order, and the keys of every living lease."""

    def __init__(self, records: Iterable[Record] = (), revision: int = 0) -> None:
        self._entries = {record.key: Entry(record, 0) for record in records}
        # Sorted when a range asks for it: there are many writes and few ranges, and Python sorts
        # what is nearly in order in one pass.
        self._sorted_keys: list[str] | None = None
        self._keys_by_lease: dict[int, set[str]] = {}
        self.revision = revision

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def get(self, key: str) -> Record | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.record

    def range(self, prefix: str) -> list[Record]:
        if self._sorted_keys is None:
            self._sorted_keys = sorted(self._entries)
        start = bisect_left(self._sorted_keys, prefix)
        end = bisect_left(self._sorted_keys, prefix + _AFTER_ASCII)
        return [self._entries[key].record for key in self._sorted_keys[start:end]]

    def keys_of_lease(self, lease_id: int) -> list[str]:
        return sorted(self._keys_by_lease.get(lease_id, ()))

    def is_durable(self, key: str) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.lease_id == 0

    def needs_disk(self, transaction: Transaction) -> bool:
        """Whether any change would have to be written down, if the checks hold."""
        return any(
            self.is_durable(change.key) or (isinstance(change, Put) and change.lease is None)
            for change in transaction.changes
        )

    def store(self, key: str, entry: Entry | None) -> None:
        old = self._entries.get(key)
        if old is not None and old.lease_id:
            self._let_go(old.lease_id, key)
        if entry is None:
            if old is not None:
                del self._entries[key]
                self._sorted_keys = None
            return
        assert old is None or entry.record.version > old.record.version, key
        if old is None:
            self._sorted_keys = None
        self._entries[key] = entry
        if entry.lease_id:
            self._keys_by_lease.setdefault(entry.lease_id, set()).add(key)

    def _let_go(self, lease_id: int, key: str) -> None:
        keys = self._keys_by_lease[lease_id]
        keys.remove(key)
        if not keys:
            del self._keys_by_lease[lease_id]


@dataclass(slots=True)
class Draft:
    """Transactions laid over a view, in order, waiting to be committed together."""

    view: View
    _written: dict[str, Entry | None] = field(default_factory=dict)

    def judge(self, transaction: Transaction) -> Effects | None:
        """What the transaction does, now part of the draft; None if a check fails."""
        if any(self._version(check.key) != check.version for check in transaction.checks):
            return None
        self.view.revision += 1  # never given back, so that a version stands for one write only
        effects: Effects = []
        for change in transaction.changes:
            if isinstance(change, Put):
                record = Record(change.key, change.value, self.view.revision)
                effects.append((change.key, Entry(record, change.lease.id if change.lease else 0)))
            elif self._entry(change.key) is not None:
                effects.append((change.key, None))
        self._written.update(effects)
        return effects

    def disk_work(self, suspects: Iterable[str]) -> tuple[list[Record], list[str]]:
        """Rows to write and keys to remove so that the file agrees with this draft.

        `suspects` are keys of which the file may hold what never was committed. They are mended
        along with other work only: a draft that needs no disk must not fail for want of one.
        """
        keys = {key for key in self._written if self._touches_disk(key)}
        return self.rows_of(keys.union(suspects)) if keys else ([], [])

    def rows_of(self, keys: Iterable[str]) -> tuple[list[Record], list[str]]:
        entries = {key: self._entry(key) for key in keys}
        durable = {k: e.record for k, e in entries.items() if e is not None and e.lease_id == 0}
        return list(durable.values()), [key for key in entries if key not in durable]

    def _touches_disk(self, key: str) -> bool:
        entry = self._entry(key)
        return self.view.is_durable(key) or (entry is not None and entry.lease_id == 0)

    def _entry(self, key: str) -> Entry | None:
        return self._written[key] if key in self._written else self.view.entry(key)

    def _version(self, key: str) -> int:
        entry = self._entry(key)
        return 0 if entry is None else entry.record.version


def as_changes(effects: Effects) -> tuple[Change, ...]:
    return tuple(Change(key, None if entry is None else entry.record) for key, entry in effects)
