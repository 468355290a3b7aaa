"""What each node thinks there is, and what etcd says there is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from cluster_chaos.expectations import Thing
from cluster_chaos.world import ChaosNode, World
from warren.metadata.codec import decode_binding, decode_exchange, decode_queue
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import parse_etcd_address
from warren.metadata.keys import KeyKind, parse_key
from warren.metadata.store import MetadataError

SHOWN_MAX: Final = 6
EXCLUSIVE: Final = "exclusive queue"
NODE: Final = "node"
_EXCHANGE_FIELDS: Final = ("vhost", "name", "type", "durable", "auto_delete", "internal")


def things_of_node(node: ChaosNode) -> set[Thing]:
    """As its HTTP API tells."""
    things: set[Thing] = set()
    for queue in node.ask("/api/definitions")["queues"]:
        things.add(("queue", queue["name"]))
        things.add(("durable", queue["name"], str(queue["durable"])))
    for exchange in node.ask("/api/exchanges"):
        if exchange["name"] and not exchange["name"].startswith("amq."):
            things.add(("exchange", exchange["name"]))
            things.add(("details", *(str(exchange[field]) for field in _EXCHANGE_FIELDS)))
    for binding in node.ask("/api/bindings"):
        if binding["source"]:
            things.add(_binding(binding))
    for kind, path in (("user", "users"), ("policy", "policies"), ("vhost", "vhosts")):
        things.update((kind, each["name"]) for each in node.ask(f"/api/{path}"))
    return things


def _binding(binding: dict[str, Any]) -> Thing:
    end = (binding["destination_type"], binding["destination"])
    return ("binding", binding["source"], *end, binding["routing_key"])


def things_of_etcd(world: World) -> set[Thing]:
    return {thing for thing in asyncio.run(_things_of_etcd(world.metadata)) if thing[0] != NODE}


def has_session(world: World, node: ChaosNode) -> bool:
    try:
        return (NODE, node.name) in asyncio.run(_things_of_etcd(world.metadata))
    except MetadataError:
        return False  # as far as can be told


async def _things_of_etcd(metadata: str) -> set[Thing]:
    store = EtcdStore(parse_etcd_address(metadata))
    await store.open()
    things: set[Thing] = set()
    try:
        for record in await store.range(""):
            key = parse_key(record.key)
            if key is not None:
                things.update(_stored(key.kind, key.parts, record.value))
    finally:
        await store.close()
    return things


def _stored(kind: KeyKind, parts: tuple[str, ...], value: bytes) -> Iterator[Thing]:
    if kind is KeyKind.QUEUE:
        queue = decode_queue(value)
        if queue.exclusive:  # which no definitions show
            yield (EXCLUSIVE, queue.name)
        else:
            yield ("queue", queue.name)
            yield ("durable", queue.name, str(queue.durable))
    elif kind is KeyKind.EXCHANGE:
        exchange = decode_exchange(value)
        yield ("exchange", exchange.name)
        yield ("details", *(str(getattr(exchange, field)) for field in _EXCHANGE_FIELDS))
    elif kind is KeyKind.BINDING:
        binding = decode_binding(value)
        end = (binding.destination.kind.value, binding.destination.name)
        yield ("binding", binding.source, *end, binding.routing_key)
    elif kind in {KeyKind.USER, KeyKind.VHOST, KeyKind.NODE}:
        yield (kind.value, parts[0])
    elif kind is KeyKind.POLICY:
        yield ("policy", parts[1])


def differences(world: World) -> list[str]:
    """Between the nodes and etcd; nothing if all agree."""
    told = []
    stored = {thing for thing in things_of_etcd(world) if thing[0] != EXCLUSIVE}
    for node in world.nodes:
        found = things_of_node(node)
        for what, some in (("lacks", stored - found), ("has too much", found - stored)):
            if some:
                shown = ", ".join(map(str, sorted(some)[:SHOWN_MAX]))
                told.append(f"{node.name} {what}, against etcd: {len(some)}: {shown}")
    return told


def dangling(things: set[Thing]) -> Iterator[str]:
    """Bindings in the store that lack an end."""
    for thing in things:
        if thing[0] == "binding":
            _, source, kind, destination, _key = thing
            if ("exchange", source) not in things and not source.startswith("amq."):
                yield f"{thing} is in etcd without its source"
            if not things & {(kind, destination), (EXCLUSIVE, destination)}:
                yield f"{thing} is in etcd without its destination"
