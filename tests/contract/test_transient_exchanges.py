"""What belongs to no node is removed by the first node to start when none is running."""

from __future__ import annotations

from warren.metadata.codec import encode_record
from warren.metadata.keys import binding_key, exchange_key, node_key
from warren.metadata.store import MetadataStore, Put
from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination, DestinationKind, ExchangeRecord
from warren.server.transient_exchanges import remove_leftovers


def exchange(name: str, durable: bool) -> Put:
    record = ExchangeRecord("/", name, "fanout", durable=durable)
    return Put(exchange_key("/", name), encode_record(record))


def binding(source: str, kind: DestinationKind, name: str) -> Put:
    record = BindingRecord("/", source, Destination(kind, name), "", Table())
    return Put(binding_key(record), encode_record(record))


LASTING = [
    exchange("durable", True),
    binding("durable", DestinationKind.QUEUE, "transient"),
    binding("amq.topic", DestinationKind.EXCHANGE, "durable"),
]
PASSING = [
    exchange("transient", False),
    binding("transient", DestinationKind.QUEUE, "q"),
    binding("durable", DestinationKind.EXCHANGE, "transient"),
]


async def keys(store: MetadataStore) -> set[str]:
    return {record.key for record in await store.range("")}


async def test_transient_exchanges_go_with_their_bindings_when_there_is_no_node(
    store: MetadataStore,
) -> None:
    await store.transact([], [*LASTING, *PASSING])
    assert await remove_leftovers(store) == len(PASSING)
    assert await keys(store) == {put.key for put in LASTING}
    assert await remove_leftovers(store) == 0


async def test_they_stay_while_there_is_a_node(store: MetadataStore) -> None:
    await store.transact([], [*LASTING, *PASSING, Put(node_key("n1"), b"{}")])
    assert await remove_leftovers(store) == 0
    assert {put.key for put in PASSING} <= await keys(store)
