"""What becomes of mirrored queues when a node is forgotten: it had copies, and is not to come back.

Where others have all that was confirmed, nothing is lost. Where it alone had, the oldest of the
copies that are left counts from then on, even if its node is not running at the moment: it leads
when it comes. RabbitMQ does the same, but only with copies of nodes that do not run; here a copy
is not thrown away by starting its node. A queue that nobody else has a copy of goes with the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.metadata.keys import group_key, node_key
from warren.metadata.store import Check, MetadataUnavailable, Put
from warren.mirror.group_record import GroupRecord, decode_record, encode_record, forget_node
from warren.server.logs import EventLog

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors
    from warren.server.mirroring.replica_host import QueueName

ATTEMPTS_MAX: Final = 20
"""Of changing a record that others change, too."""

_log = EventLog("mirror")


async def forget_copies(mirrors: Mirrors, node: str) -> None:
    """No record of a group counts on that node any more, which has no session."""
    for name, (group, _) in tuple(mirrors.records.items()):
        if node in group.recoverable or any(member.node == node for member in group.members):
            await _forget_copy(mirrors, name, node)


async def _forget_copy(mirrors: Mirrors, name: QueueName, node: str) -> None:
    key = group_key(*name)
    for _ in range(ATTEMPTS_MAX):
        stored = await mirrors.store.get(key)
        if stored is None:
            return
        before = decode_record(stored.value)
        after = forget_node(before, node)
        if after is None:
            return  # it is deleted with all else that the node alone had
        checks = [Check(key, stored.version), Check(node_key(node), 0)]
        if await mirrors.store.commit(checks, [Put(key, encode_record(after))]):
            _tell_heir(name, before, after)
            return
    raise MetadataUnavailable(f"the copies of queue '{name[1]}' change all the time")


def _tell_heir(name: QueueName, before: GroupRecord, after: GroupRecord) -> None:
    if not set(before.insync) & set(after.insync):
        _log.warning(
            "the last whole copy was forgotten: another one counts now, whatever it lacks",
            queue=f"queue '{name[1]}' in vhost '{name[0]}'",
            node=after.recoverable[0],
        )
