"""The messages of etcd's protocol (version 3) that a node exchanges with it. Pure.

Requests are functions that return encoded bytes, so that larger ones are put together from smaller
ones without a tree of objects between. Answers are read into tuples that hold what a node uses and
nothing else. A `Method` says where a request goes and how its answer is read.

Field numbers are those of etcd's `rpc.proto` and `kv.proto`. They never change: a newer etcd may
only add fields, which a reader here skips. docs/DECISIONS.md (17) says why there is no protobuf
library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from warren.metadata.protobuf_wire import (
    BadMessage,
    fields,
    integer,
    integer_of_oneof,
    message,
    messages,
    octets,
    signed,
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Method(Generic[Answer]):
    path: str
    """Path of the method in HTTP/2: /package.Service/Method."""
    read: Callable[[bytes], Answer]
    """Raises BadMessage."""


# Requests.

_COMPARE_CREATE_REVISION: Final = 1
_COMPARE_MOD_REVISION: Final = 2


def range_request(
    key: bytes, end: bytes = b"", *, limit: int = 0, revision: int = 0, is_keys_only: bool = False
) -> bytes:
    """Ask for `key`, or for the keys from it to before `end`; `revision` 0 is the latest."""
    return (
        octets(1, key)
        + octets(2, end)
        + integer(3, limit)
        + integer(4, revision)
        + integer(8, is_keys_only)
    )


def put_request(key: bytes, value: bytes = b"", lease_id: int = 0) -> bytes:
    return octets(1, key) + octets(2, value) + integer(3, lease_id)


def delete_request(key: bytes) -> bytes:
    return octets(1, key)


def range_operation(request: bytes) -> bytes:
    """Make a read a part of a transaction; the next three do so with other requests."""
    return message(1, request)


def put_operation(request: bytes) -> bytes:
    return message(2, request)


def delete_operation(request: bytes) -> bytes:
    return message(3, request)


def transaction_operation(request: bytes) -> bytes:
    return message(4, request)


def is_at_revision(key: bytes, revision: int) -> bytes:
    """Check that `key` was last changed at this revision; 0 means that there is no such key."""
    return integer(2, _COMPARE_MOD_REVISION) + octets(3, key) + integer_of_oneof(6, revision)


def is_empty(key: bytes, end: bytes) -> bytes:
    """Check that there are no keys from `key` to before `end`."""
    return (
        integer(2, _COMPARE_CREATE_REVISION)
        + octets(3, key)
        + integer_of_oneof(5, 0)
        + octets(64, end)
    )


def txn_request(
    checks: Iterable[bytes] = (), success: Iterable[bytes] = (), failure: Iterable[bytes] = ()
) -> bytes:
    """Do the operations `success` if all checks hold, else the operations `failure`."""
    return messages(1, checks) + messages(2, success) + messages(3, failure)


def watch_request(key: bytes, end: bytes, start_revision: int) -> bytes:
    create = octets(1, key) + octets(2, end) + integer(3, start_revision)
    return message(1, create)


def lease_grant_request(ttl_s: int) -> bytes:
    return integer(1, ttl_s)


def lease_request(lease_id: int) -> bytes:
    """Name a lease that is to be revoked or kept alive."""
    return integer(1, lease_id)


def authenticate_request(name: str, password: str) -> bytes:
    return octets(1, name.encode()) + octets(2, password.encode())


# Answers.


class Pair(NamedTuple):
    """A key and what etcd knows of it; after a deletion only `key` and `mod_revision`."""

    key: bytes
    value: bytes
    mod_revision: int
    lease_id: int


class RangeAnswer(NamedTuple):
    revision: int
    """Revision of the whole store that the answer was given at."""
    pairs: list[Pair]
    has_more: bool
    """True if `limit` cut the answer short."""
    key_count: int
    """Number of keys in the range, whatever `limit` says."""


class PutAnswer(NamedTuple):
    revision: int


class DeleteAnswer(NamedTuple):
    revision: int
    deleted: int


class TransactionAnswer(NamedTuple):
    revision: int
    is_successful: bool
    parts: list[OperationAnswer]
    """One for each operation that was done, in their order."""


OperationAnswer = RangeAnswer | PutAnswer | DeleteAnswer | TransactionAnswer


class WatchEvent(NamedTuple):
    is_deletion: bool
    pair: Pair


class WatchAnswer(NamedTuple):
    is_cancelled: bool
    compact_revision: int
    """Not 0 if the watch failed because older revisions are gone."""
    cancel_reason: str
    events: list[WatchEvent]


class LeaseAnswer(NamedTuple):
    lease_id: int
    ttl_s: int
    """Seconds left; 0 if there is no such lease."""


def read_pair(encoded: bytes) -> Pair:
    key = value = b""
    mod_revision = lease_id = 0
    for number, whole, part in fields(encoded):
        if number == 1:
            key = part
        elif number == 3:
            mod_revision = whole
        elif number == 5:
            value = part
        elif number == 6:
            lease_id = signed(whole)
    return Pair(key, value, mod_revision, lease_id)


def read_range(encoded: bytes) -> RangeAnswer:
    revision = key_count = 0
    pairs = []
    has_more = False
    for number, whole, part in fields(encoded):
        if number == 1:
            revision = _revision(part)
        elif number == 2:
            pairs.append(read_pair(part))
        elif number == 3:
            has_more = bool(whole)
        elif number == 4:
            key_count = whole
    return RangeAnswer(revision, pairs, has_more, key_count)


def read_put(encoded: bytes) -> PutAnswer:
    return PutAnswer(_header_revision(encoded))


def read_deletion(encoded: bytes) -> DeleteAnswer:
    revision = deleted = 0
    for number, whole, part in fields(encoded):
        if number == 1:
            revision = _revision(part)
        elif number == 2:
            deleted = whole
    return DeleteAnswer(revision, deleted)


def read_transaction(encoded: bytes) -> TransactionAnswer:
    revision = 0
    is_successful = False
    parts = []
    for number, whole, part in fields(encoded):
        if number == 1:
            revision = _revision(part)
        elif number == 2:
            is_successful = bool(whole)
        elif number == 3:
            parts.append(_read_operation(part))
    return TransactionAnswer(revision, is_successful, parts)


def _read_operation(encoded: bytes) -> OperationAnswer:
    for number, _, part in fields(encoded):
        if number in _OPERATIONS:
            return _OPERATIONS[number](part)
    raise BadMessage("an answer to no operation that was asked for")


_OPERATIONS: Final[dict[int, Callable[[bytes], OperationAnswer]]] = {
    1: read_range,
    2: read_put,
    3: read_deletion,
    4: read_transaction,
}


def read_watch(encoded: bytes) -> WatchAnswer:
    is_cancelled = False
    compact_revision = 0
    cancel_reason = ""
    events = []
    for number, whole, part in fields(encoded):
        if number == 4:
            is_cancelled = bool(whole)
        elif number == 5:
            compact_revision = whole
        elif number == 6:
            cancel_reason = str(part, "utf-8", "replace")
        elif number == 11:
            events.append(_read_event(part))
    return WatchAnswer(is_cancelled, compact_revision, cancel_reason, events)


def _read_event(encoded: bytes) -> WatchEvent:
    is_deletion = False
    pair = Pair(b"", b"", 0, 0)
    for number, whole, part in fields(encoded):
        if number == 1:
            is_deletion = bool(whole)
        elif number == 2:
            pair = read_pair(part)
    return WatchEvent(is_deletion, pair)


def read_lease(encoded: bytes) -> LeaseAnswer:
    lease_id = ttl_s = 0
    for number, whole, _ in fields(encoded):
        if number == 2:
            lease_id = signed(whole)
        elif number == 3:
            ttl_s = signed(whole)
    return LeaseAnswer(lease_id, ttl_s)


def read_token(encoded: bytes) -> str:
    token = b""
    for number, _, part in fields(encoded):
        if number == 2:
            token = part
    return str(token, "utf-8", "replace")


def _header_revision(encoded: bytes) -> int:
    """Return the store's revision from the header, the first field of every answer."""
    revision = 0
    for number, _, part in fields(encoded):
        if number == 1:
            revision = _revision(part)
    return revision


def _revision(header: bytes) -> int:
    revision = 0
    for number, whole, _ in fields(header):
        if number == 3:
            revision = whole
    return revision


# Methods.

RANGE: Final = Method("/etcdserverpb.KV/Range", read_range)
PUT: Final = Method("/etcdserverpb.KV/Put", read_put)
TRANSACT: Final = Method("/etcdserverpb.KV/Txn", read_transaction)
WATCH: Final = Method("/etcdserverpb.Watch/Watch", read_watch)
LEASE_GRANT: Final = Method("/etcdserverpb.Lease/LeaseGrant", read_lease)
LEASE_REVOKE: Final = Method("/etcdserverpb.Lease/LeaseRevoke", _header_revision)
LEASE_KEEP_ALIVE: Final = Method("/etcdserverpb.Lease/LeaseKeepAlive", read_lease)
AUTHENTICATE: Final = Method("/etcdserverpb.Auth/Authenticate", read_token)
