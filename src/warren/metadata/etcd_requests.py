"""Transactions and leases in etcd's words. Pure.

An etcd as it comes takes 128 operations in a transaction, and a queue may have 5000 bindings that
have to go at once. But an operation may itself be a transaction, and etcd allows each level what
the levels above have left of the 128: so 64 transactions of 64 operations each are one transaction,
done as one or not at all, and three levels hold as many as we ever ask for. A transaction has its
checks at the top, where they take away from that room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.metadata.etcd_messages import (
    DeleteAnswer,
    OperationAnswer,
    PutAnswer,
    RangeAnswer,
    TransactionAnswer,
    delete_operation,
    delete_request,
    is_at_revision,
    put_operation,
    put_request,
    range_operation,
    range_request,
    transaction_operation,
    txn_request,
)
from warren.metadata.store import Check, Lease, Operation, Put
from warren.metadata.view import Transaction

# What etcd allows if it is not told otherwise (--max-txn-ops).
OPERATIONS_MAX: Final = 128
# Checks have left next to nothing: the answer will say so.
_ROOM_MIN: Final = 4


def transaction_request(prefix: str, transaction: Transaction, writer: Put | None = None) -> bytes:
    """On failure it reads what was checked, so that the caller can wait for its copy to agree.

    `writer` is put beside the data along with what changes, whole key and all.
    """
    success = [_operation(prefix, change) for change in transaction.changes]
    if writer is not None and success:
        success.append(_operation("", writer))
    return txn_request(
        [is_at_revision(_key(prefix, check), check.version) for check in transaction.checks],
        _nested(success, OPERATIONS_MAX, len(transaction.checks)),
        [
            range_operation(range_request(_key(prefix, check), is_keys_only=True))
            for check in transaction.checks
        ],
    )


def group_request(prefix: str, transactions: Sequence[Transaction], writer: Put | None) -> bytes:
    """Each done or refused by itself; the answer's parts are in the same order."""
    parts = [transaction_operation(transaction_request(prefix, t)) for t in transactions]
    if writer is not None and any(transaction.changes for transaction in transactions):
        parts.append(_operation("", writer))
    return txn_request(success=parts)


def has_changed(answer: TransactionAnswer) -> bool:
    """True if a successful transaction changed anything: deleting nothing does not."""
    return any(map(_has_changed, answer.parts))


def _has_changed(part: OperationAnswer) -> bool:
    match part:
        case TransactionAnswer():
            return has_changed(part)
        case DeleteAnswer():
            return part.deleted > 0
        case _:
            return isinstance(part, PutAnswer)


def versions_found(checks: Sequence[Check], answer: TransactionAnswer) -> dict[str, int]:
    """Return the version of each key that a refused transaction checked, 0 if absent."""
    found = {}
    for check, part in zip(checks, answer.parts, strict=True):
        assert isinstance(part, RangeAnswer), "the failure branch only reads"
        found[check.key] = part.pairs[0].mod_revision if part.pairs else 0
    return found


def _nested(operations: list[bytes], room: int, checks: int) -> list[bytes]:
    """The same operations as a tree, no level of which is wider than the room left to it."""
    if len(operations) <= room or room < _ROOM_MIN:
        return operations
    levels = 2 if len(operations) <= (room // 2) ** 2 else 3
    width = max(room // levels, min(checks, room - 2))
    per_branch = -(-len(operations) // width)
    branches = [operations[i : i + per_branch] for i in range(0, len(operations), per_branch)]
    return [
        transaction_operation(txn_request(success=_nested(branch, room - width, 0)))
        for branch in branches
    ]


def lease_id(lease: Lease | None) -> int:
    return 0 if lease is None else lease.id


def _key(prefix: str, named: Check | Operation) -> bytes:
    return (prefix + named.key).encode()


def _operation(prefix: str, change: Operation) -> bytes:
    key = _key(prefix, change)
    if isinstance(change, Put):
        return put_operation(put_request(key, change.value, lease_id(change.lease)))
    return delete_operation(delete_request(key))
