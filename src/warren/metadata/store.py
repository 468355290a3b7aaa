"""The metadata store: what every engine promises.

A store is an ordered map from keys to values, changed only by transactions. There are two engines:
`sqlite` for a single node, and `etcd` for a cluster. The words below are chosen so that both can
keep them: what only one could promise is not promised. One suite
(`tests/contract/test_metadata_store.py`) holds both engines to this text.

**Versions.** Every transaction that changes something has a number greater than all that returned
before it was called (those under way at once may share one), and a record's version is the number
of the transaction that last wrote it (etcd's *mod revision*). It is not a count of the changes of
that key (etcd's *version*), because that count starts again when a key is deleted and made anew:
whoever validated the old queue `q` would then pass a check against another queue `q`. So a version
never comes back, 0 stands for "there is no such key", and nothing is to be computed from a version:
read it, and hand it to `Check`.

**One copy.** `get`, `range` and the callbacks of `watch` tell of the same copy: what a callback
has told is what a read shows, no more and no less. In a cluster that copy may lag behind other
nodes (who must be right uses `Check`), but never behind own transactions that have returned.

**Watches** start at the call and show nothing older. To build a copy, watch first and read then.
An engine that loses its feed (etcd compacts its history) reads everything again and tells the
difference as ordinary changes: a callback may then see several transactions as one, but never a
key going back to an older version.

**Leases** tie keys to the life of a holder. They are for what must not outlive a node: its
session, its transient and exclusive queues. Such keys need not survive a restart of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

# A transaction is one unit in memory, in a batch and on the wire: it must have a size. The number
# lets a queue with tens of thousands of bindings go at once.
TRANSACTION_OPERATIONS_MAX: Final = 65_536
# What need not be one transaction is made several of about this many operations: the store, the
# nodes that apply them and a stock etcd (1.5 MB) like that better.
OPERATIONS_AT_ONCE: Final = 1_024
# Each of which has to hold: a stock etcd takes 128 in a transaction, some of them for others.
CHECKS_AT_ONCE: Final = 48
VALUE_BYTES_MAX: Final = 1_048_576
KEY_CHARS_MAX: Final = 8_192


@dataclass(frozen=True, slots=True)
class Record:
    key: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A holder's sign of life; `id` is never 0 and never given twice."""

    id: int
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Put:
    """With a lease the key dies with it; without one it is durable, whatever it was before."""

    key: str
    value: bytes
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deleting what is not there is no error, and no change either."""

    key: str


@dataclass(frozen=True, slots=True)
class Check:
    """Holds if the key's version is exactly this one; 0 means that the key must be absent."""

    key: str
    version: int


Operation: TypeAlias = Put | Delete


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a key; no record means that it was deleted."""

    key: str
    record: Record | None


WatchCallback: TypeAlias = Callable[[Sequence[Change]], None]
CancelWatch: TypeAlias = Callable[[], None]


class MetadataError(Exception):
    """Base of what a store raises; the text is fit for a log and an operator."""


class MetadataUnavailable(MetadataError):
    """The store cannot do this now (disk full, no quorum, closed); trying again later may help."""


class MetadataUnusable(MetadataError):
    """The store cannot be opened and needs a person; the text says what to do."""


class LeaseLost(MetadataError):
    """The lease expired or was revoked, and its keys are gone."""


class MetadataStore(Protocol):
    """Not for use by several event loops or threads: all calls come from the one that opened it."""

    # Life.

    async def open(self) -> None:
        """Make the store ready, with everything durable readable; raises MetadataUnusable."""
        ...

    async def close(self) -> None:
        """Wait for what was submitted, then let go. Revokes no lease: a clean stop does that."""
        ...

    # Reads: of the one copy, without waiting for disk or network.

    async def get(self, key: str) -> Record | None: ...

    async def range(self, prefix: str) -> list[Record]:
        """All records whose key starts with the prefix, in the order of their keys."""
        ...

    # Atomic and durable.

    async def transact(self, checks: Sequence[Check], changes: Sequence[Operation]) -> bool:
        """If all checks hold, make all changes as one and return True; else change nothing, False.

        - Atomic: no reader, watcher or crash ever sees a part. All records written share a version.
        - Durable: True means that changes without a lease are on stable storage.
        - Ordered: transactions of one store that share a key (in checks or changes) take effect in
          the order of the calls. False is an answer about a state that is itself durable.
        - Told: every watcher has been called with the changes before this returns.
        - A key may occur once in `changes` (ValueError), and the sizes are bounded (ValueError).
        - LeaseLost, if a lease named in a Put is gone: nothing was changed.
        - MetadataUnavailable: the change is not in the copy and was not told to watchers. A store
          on the other side of a network may still do it, and then watchers are told: so make
          changes that may be repeated, or give them checks.
        - Cancelling the caller takes nothing back: the transaction happens or it does not.
        """
        ...

    # In order.

    def watch(self, callback: WatchCallback) -> CancelWatch:
        """Call back on the loop for each transaction that changes something, in commit order.

        The callback gets the changes of one transaction in the order they were given, and those
        of transactions that share a number together. It must not raise: an exception stops
        neither the other watchers nor the transaction, but it ends the node (`watchers`). No call
        comes after cancelling.
        """
        ...

    # In time.

    async def grant_lease(self, ttl_s: float) -> Lease:
        """A lease that lives for `ttl_s` after the grant and after each keep-alive."""
        ...

    async def keep_alive(self, lease: Lease) -> None:
        """Start the time to live anew; raises LeaseLost if that came too late.

        Call it at least three times per time to live. An engine may be late in ending a lease,
        never early.
        """
        ...

    async def revoke(self, lease: Lease) -> None:
        """Delete, as one transaction, all keys whose last Put named this lease. Twice is once."""
        ...
