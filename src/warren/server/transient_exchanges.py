"""What is not durable and belongs to no node: it ends when the last node of the cluster does.

A transient queue ends with its home. A transient exchange has no home: RabbitMQ keeps it, and its
bindings, for as long as any node runs. No lease can say that, so these are stored without one, and
the first node to start when none is running removes them. Two may start at once: what is removed
was seen at a moment when no node had a session, and must be unchanged.
"""

from __future__ import annotations

from warren.metadata.codec import decode_binding, decode_exchange
from warren.metadata.keys import KeyKind, exchange_key, prefix
from warren.metadata.store import Check, Delete, MetadataStore, Record
from warren.model.records import BindingRecord, DestinationKind


async def remove_leftovers(store: MetadataStore) -> int:
    """Unless there is a node; says how many exchanges and bindings were removed."""
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
    keys = {record.key for record in gone}
    bindings = await store.range(prefix(KeyKind.BINDING))
    return gone + [b for b in bindings if _ends(decode_binding(b.value)) & keys]


def _ends(binding: BindingRecord) -> set[str]:
    """The keys of the exchanges at its ends."""
    ends = {exchange_key(binding.vhost, binding.source)}
    if binding.destination.kind is DestinationKind.EXCHANGE:
        ends.add(exchange_key(binding.vhost, binding.destination.name))
    return ends
