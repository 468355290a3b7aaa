"""What becomes of mirrored queues when a node is forgotten: it had copies, and is not to come back.

Where others have all that was confirmed, nothing is lost. Where it alone had, the oldest of the
copies that are left counts from then on, even if its node is not running at the moment: it leads
when it comes. RabbitMQ does the same, but only with copies of nodes that do not run; here a copy
is not thrown away by starting its node. A queue that nobody else has a copy of goes with the node.
"""

from __future__ import annotations

from typing import Final

from warren.cluster.chosen_nodes import decode_chosen, encode_chosen
from warren.metadata.etcd import EtcdStore
from warren.metadata.keys import KeyKind, node_key, parse_key, prefix
from warren.metadata.store import Check, Delete, MetadataUnavailable, Put
from warren.model.logs import EventLog
from warren.replication.group_record import GroupRecord, decode_record, encode_record, forget_node

ATTEMPTS_MAX: Final = 20
"""Of changing a record that others change, too."""

_log = EventLog("mirror")


async def forget_copies(store: EtcdStore, node: str) -> None:
    """No record of a group counts on that node any more, which has no session."""
    for stored in await store.range(prefix(KeyKind.GROUP)):
        if _counts_on(decode_record(stored.value), node):
            await _forget_copy(store, stored.key, node)
    for stored in await store.range(prefix(KeyKind.CHOSEN_NODES)):
        if node in decode_chosen(stored.value):
            await _forget_choice(store, stored.key, node)


def _counts_on(group: GroupRecord, node: str) -> bool:
    return node in group.recoverable or any(member.node == node for member in group.members)


async def _forget_copy(store: EtcdStore, key: str, node: str) -> None:
    for _ in range(ATTEMPTS_MAX):
        stored = await store.get(key)
        if stored is None:
            return
        before = decode_record(stored.value)
        after = forget_node(before, node)
        if after is None:
            return  # it is deleted with all else that the node alone had
        checks = [Check(key, stored.version), Check(node_key(node), 0)]
        if await store.commit(checks, [Put(key, encode_record(after))]):
            _tell_heir(key, before, after)
            return
    raise MetadataUnavailable(f"the copies of {_queue_of(key)} change all the time")


async def _forget_choice(store: EtcdStore, key: str, node: str) -> None:
    """The nodes that an operator chose for a quorum queue, without that one."""
    for _ in range(ATTEMPTS_MAX):
        stored = await store.get(key)
        if stored is None:
            return
        left = [each for each in decode_chosen(stored.value) if each != node]
        change = Put(key, encode_chosen(left)) if left else Delete(key)
        if await store.commit([Check(key, stored.version)], [change]):
            return
    raise MetadataUnavailable(f"the nodes chosen for {_queue_of(key)} change all the time")


def _tell_heir(key: str, before: GroupRecord, after: GroupRecord) -> None:
    if not set(before.insync) & set(after.insync):
        _log.warning(
            "the last whole copy was forgotten: another one counts now, whatever it lacks",
            queue=_queue_of(key),
            node=after.recoverable[0],
        )


def _queue_of(key: str) -> str:
    parsed = parse_key(key)
    assert parsed is not None, "it was found by its prefix"
    vhost, queue = parsed.parts
    return f"queue '{queue}' in vhost '{vhost}'"
