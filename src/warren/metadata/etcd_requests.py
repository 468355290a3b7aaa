"""Transactions and leases in etcd's words. Pure.

An etcd as it comes takes 128 operations in a transaction, and a queue may have 5000 bindings that
have to go at once. But an operation may itself be a transaction, and etcd allows each level what
the levels above have left of the 128: so 64 transactions of 64 operations each are one transaction,
done as one or not at all, and three levels hold as many as we ever ask for. A transaction has its
checks at the top, where they take away from that room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aetcd import rpc

from warren.metadata.store import Check, Lease, Operation, Put
from warren.metadata.view import Transaction

# What etcd allows if it is not told otherwise (--max-txn-ops).
OPERATIONS_MAX: Final = 128
# Checks have left next to nothing: the answer will say so.
_ROOM_MIN: Final = 4


def transaction_request(prefix: str, transaction: Transaction, writer: Put | None = None) -> Any:
    """On failure it reads what was checked, so that the caller can wait for its copy to agree.

    `writer` is put beside the data along with what changes, whole key and all.
    """
    success = [_operation(prefix, change) for change in transaction.changes]
    if writer is not None and success:
        success.append(_operation("", writer))
    return rpc.TxnRequest(
        compare=[_compare(prefix, check) for check in transaction.checks],
        success=_nested(success, OPERATIONS_MAX, len(transaction.checks)),
        failure=[_look(prefix, check) for check in transaction.checks],
    )


def group_request(prefix: str, transactions: Sequence[Transaction], writer: Put | None) -> Any:
    """Each done or refused by itself; the answer's parts are in the same order."""
    parts = [rpc.RequestOp(request_txn=transaction_request(prefix, t)) for t in transactions]
    if writer is not None and any(transaction.changes for transaction in transactions):
        parts.append(_operation("", writer))
    return rpc.TxnRequest(success=parts)


def has_changed(answer: Any) -> bool:
    """Whether a transaction that succeeded has left a trace: deleting nothing leaves none."""
    return any(map(_has_changed, answer.responses))


def _has_changed(part: Any) -> bool:
    kind = part.WhichOneof("response")
    if kind == "response_txn":
        return has_changed(part.response_txn)
    return kind == "response_put" or bool(part.response_delete_range.deleted)


def versions_found(checks: Sequence[Check], answer: Any) -> dict[str, int]:
    """What a refused transaction saw: the version of each key it checked, 0 if absent."""
    found = {}
    for check, part in zip(checks, answer.responses, strict=True):
        pairs = part.response_range.kvs
        found[check.key] = pairs[0].mod_revision if pairs else 0
    return found


def _nested(operations: list[Any], room: int, checks: int) -> list[Any]:
    """The same operations as a tree, no level of which is wider than the room left to it."""
    if len(operations) <= room or room < _ROOM_MIN:
        return operations
    levels = 2 if len(operations) <= (room // 2) ** 2 else 3
    width = max(room // levels, min(checks, room - 2))
    per_branch = -(-len(operations) // width)
    branches = [operations[i : i + per_branch] for i in range(0, len(operations), per_branch)]
    return [
        rpc.RequestOp(request_txn=rpc.TxnRequest(success=_nested(branch, room - width, 0)))
        for branch in branches
    ]


def lease_id(lease: Lease | None) -> int:
    return 0 if lease is None else lease.id


def _compare(prefix: str, check: Check) -> Any:
    return rpc.Compare(
        key=(prefix + check.key).encode(),
        result=rpc.Compare.EQUAL,
        target=rpc.Compare.MOD,
        mod_revision=check.version,
    )


def _operation(prefix: str, change: Operation) -> Any:
    key = (prefix + change.key).encode()
    if isinstance(change, Put):
        put = rpc.PutRequest(key=key, value=change.value, lease=lease_id(change.lease))
        return rpc.RequestOp(request_put=put)
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))


def _look(prefix: str, check: Check) -> Any:
    look = rpc.RangeRequest(key=(prefix + check.key).encode(), keys_only=True)
    return rpc.RequestOp(request_range=look)
