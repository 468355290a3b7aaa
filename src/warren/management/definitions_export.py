"""Everything that can be declared, as one JSON document: what `GET /api/definitions` gives.

The members and their order are RabbitMQ 3.10's, so that either broker takes the other's file. What
comes and goes with a connection, and what every virtual host has anyway, is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from warren.broker.vhost import VirtualHost
from warren.management.json_types import JsonObject, encode
from warren.management.listing import SHOWN_AT_ONCE_MAX
from warren.management.views.access import (
    show_permission,
    show_topic_permission,
    show_user,
)
from warren.management.views.bindings import describe_binding
from warren.management.views.exchanges import describe_exchange
from warren.management.views.policies import show_parameter, show_policy
from warren.management.views.queues import describe_queue
from warren.model.records import BindingRecord, DestinationKind, ExchangeRecord, QueueRecord
from warren.protocol.capabilities import COMPATIBLE_VERSION, PRODUCT

if TYPE_CHECKING:
    from warren.server.node import Node

RESERVED_PREFIX: Final = "amq."
_QUEUE_MEMBERS: Final = ("name", "vhost", "durable", "auto_delete", "arguments")
_EXCHANGE_MEMBERS: Final = (
    "name", "vhost", "type", "durable", "auto_delete", "internal", "arguments",
)  # fmt: skip

# A member's name, the things in it, and how each is written.
Section: TypeAlias = tuple[str, Iterable[Any], Callable[[Any], JsonObject]]


def all_sections(node: Node) -> Iterator[Section]:
    directory, broker = node.broker.access.directory, node.broker
    vhosts = sorted(broker.vhosts.values(), key=lambda vhost: vhost.name)
    yield "users", sorted(directory.users(), key=lambda user: user.name), show_user
    yield "vhosts", [vhost.name for vhost in vhosts], lambda name: {"name": name}
    yield (
        "permissions",
        sorted(directory.permissions(), key=lambda row: (row.vhost, row.user)),
        show_permission,
    )
    yield (
        "topic_permissions",
        sorted(directory.topic_permissions(), key=lambda row: (row.vhost, row.user, row.exchange)),
        show_topic_permission,
    )
    yield "parameters", broker.parameters.list(), show_parameter
    yield (
        "global_parameters",
        broker.parameters.list_global().items(),
        lambda item: {"name": item[0], "value": item[1]},
    )
    yield "policies", broker.policies.list(), show_policy
    yield from _topology(vhosts)


def vhost_sections(node: Node, vhost: VirtualHost) -> Iterator[Section]:
    """Without the name of the virtual host, so that another one can have the same."""
    yield "parameters", node.broker.parameters.list(None, vhost.name), show_parameter
    yield "policies", node.broker.policies.list(vhost.name), show_policy
    for name, items, show in _topology([vhost]):
        yield name, items, _without_vhost(show)


def head_of(is_whole: bool) -> JsonObject:
    head = {"rabbit_version": COMPATIBLE_VERSION}
    if is_whole:
        head |= {
            "rabbitmq_version": COMPATIBLE_VERSION,
            "product_name": PRODUCT,
            "product_version": COMPATIBLE_VERSION,
        }
    return head


async def written(head: JsonObject, sections: Iterable[Section]) -> AsyncIterator[bytes]:
    """The document in pieces, with a turn of the loop after each."""
    yield encode(head).removesuffix(b"}")
    for name, items, show in sections:
        yield b"," + encode(name) + b":["
        rest, comma = iter(items), b""
        while piece := [encode(show(item)) for item in islice(rest, SHOWN_AT_ONCE_MAX)]:
            yield comma + b",".join(piece)
            comma = b","
            await asyncio.sleep(0)
        yield b"]"
    yield b"}"


def _topology(vhosts: list[VirtualHost]) -> Iterator[Section]:
    queues = [queue.record for vhost in vhosts for queue in vhost.queues.values()]
    exchanges = [exchange.record for vhost in vhosts for exchange in vhost.exchanges.values()]
    bindings = [binding for vhost in vhosts for binding in vhost.bindings.all()]
    exclusive = {(record.vhost, record.name) for record in queues if record.exclusive}
    yield "queues", (record for record in queues if not record.exclusive), _define_queue
    yield "exchanges", (record for record in exchanges if _is_own(record)), _define_exchange
    yield "bindings", (b for b in bindings if _is_kept(b, exclusive)), describe_binding


def _is_own(record: ExchangeRecord) -> bool:
    return bool(record.name) and not record.name.startswith(RESERVED_PREFIX)


def _is_kept(binding: BindingRecord, exclusive: set[tuple[str, str]]) -> bool:
    destination = binding.destination
    is_queue = destination.kind is DestinationKind.QUEUE
    return not is_queue or (binding.vhost, destination.name) not in exclusive


def _define_queue(record: QueueRecord) -> JsonObject:
    described = describe_queue(record)
    return {name: described[name] for name in _QUEUE_MEMBERS}


def _define_exchange(record: ExchangeRecord) -> JsonObject:
    described = describe_exchange(record)
    return {name: described[name] for name in _EXCHANGE_MEMBERS}


def _without_vhost(show: Callable[[Any], JsonObject]) -> Callable[[Any], JsonObject]:
    return lambda item: {name: value for name, value in show(item).items() if name != "vhost"}
