"""What is not durable and belongs to no node: it ends when the last node of the cluster does.

A transient queue ends with its node. A transient exchange belongs to none: RabbitMQ keeps it, and
its bindings, for as long as any node runs; and a transient queue that is mirrored has as many as it
has copies. No lease can say that, so these are stored without one, and the first node to start when
none is running removes them. Two may start at once: what is removed was seen at a moment when no
node had a session, and must be unchanged.
"""

from __future__ import annotations

from warren.metadata.codec import decode_binding, decode_exchange, decode_queue
from warren.metadata.keys import KeyKind, exchange_key, group_key, prefix, queue_key
from warren.metadata.store import Check, Delete, MetadataStore, Record
from warren.model.records import BindingRecord, DestinationKind


async def remove_leftovers(store: MetadataStore) -> int:
    """Unless there is a node; says how many records were removed."""
    while not await store.range(prefix(KeyKind.NODE)):
        leftovers = await _leftovers(store)
        checks = [Check(record.key, record.version) for record in leftovers]
        changes = [Delete(record.key) for record in leftovers]
        if await store.transact(checks, changes):
            return len(leftovers)
    return 0


async def _leftovers(store: MetadataStore) -> list[Record]:
    exchanges = await store.range(prefix(KeyKind.EXCHANGE))
    gone = [record for record in exchanges if not decode_exchange(record.value).durable]
    for record in await store.range(prefix(KeyKind.QUEUE)):
        queue = decode_queue(record.value)
        if not queue.durable:
            group = await store.get(group_key(queue.vhost, queue.name))
            gone += [record] if group is None else [record, group]
    keys = {record.key for record in gone}
    bindings = await store.range(prefix(KeyKind.BINDING))
    return gone + [b for b in bindings if _ends(decode_binding(b.value)) & keys]


def _ends(binding: BindingRecord) -> set[str]:
    """The keys of what is at its ends."""
    ends = {exchange_key(binding.vhost, binding.source)}
    is_exchange = binding.destination.kind is DestinationKind.EXCHANGE
    key_of = exchange_key if is_exchange else queue_key
    ends.add(key_of(binding.vhost, binding.destination.name))
    return ends
