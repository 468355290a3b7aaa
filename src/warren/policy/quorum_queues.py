"""Copies of quorum queues: what their arguments and their operator want of them. Pure.

A quorum queue is mirrored without a policy, by the machinery of mirrored queues: as many copies as
`x-quorum-initial-group-size` says, always synchronised, and only one that lacks nothing may lead.
Once an operator has changed its members by hand (`grow`, `shrink`, `add_member`, `delete_member`),
the list of nodes that came of it is what is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from warren.model.fields import Table
from warren.model.records import QueueRecord
from warren.policy.wanted_copies import SYNC_BATCH_DEFAULT, Mirroring, MirrorMode, mirroring_of

GROUP_SIZE: Final = "x-quorum-initial-group-size"
GROUP_SIZE_DEFAULT: Final = 3
_QUORUM: Final = b"quorum"


def is_quorum(arguments: Table) -> bool:
    """True for the arguments of a quorum queue."""
    field = arguments.get("x-queue-type")
    return field is not None and field.value == _QUORUM


def group_size_of(arguments: Table) -> int:
    """Number of copies that a quorum queue was declared with, on as many nodes or more."""
    field = arguments.get(GROUP_SIZE)
    size = None if field is None else field.value
    return size if isinstance(size, int) else GROUP_SIZE_DEFAULT


def copies_wished(
    record: QueueRecord,
    policy: Mapping[str, object],
    members: Sequence[str] = (),
    batch_default: int = SYNC_BATCH_DEFAULT,
) -> Mirroring | None:
    """The copies that a queue should have; None if it is not to be mirrored.

    `members` are the nodes that an operator chose for a quorum queue; empty if none did.
    """
    if not is_quorum(record.arguments):
        return mirroring_of(policy, batch_default)
    return Mirroring(
        mode=MirrorMode.NODES if members else MirrorMode.EXACTLY,
        count=0 if members else group_size_of(record.arguments),
        nodes=tuple(members),
        is_sync_automatic=True,
        sync_batch_size=batch_default,
        promotes_unsynced_on_shutdown=False,
        promotes_unsynced_on_failure=False,
        is_kept_by_old_master=True,
    )
