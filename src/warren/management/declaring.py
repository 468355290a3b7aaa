"""Declaring, binding and deleting for a caller of the API, as a channel does it for a client.

The permissions and the order in which they are asked are the same; a caller has no connection, so
exclusive queues are never its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.auth.permissions import Access, ResourceKind
from warren.broker.exchange_operations import require_known_type
from warren.broker.predeclared import require_not_default
from warren.management.call import Call
from warren.management.errors import BetweenMasters
from warren.model.equivalence import alternate_exchange_of
from warren.model.errors import AmqpError
from warren.model.records import BindingRecord, DestinationKind, ExchangeRecord, QueueRecord
from warren.queues.arguments import dead_letter_exchange_of
from warren.queues.boundary import answer_of
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.broker.super_streams import SuperStreamWish

# No connection has this id.
NO_CONNECTION: Final = ""

# To declare a super stream is to declare an exchange and queues, and to bind them.
_ON_EXCHANGE: Final[tuple[Access, ...]] = ("configure", "read")
_ON_PARTITION: Final[tuple[Access, ...]] = ("configure", "write")


async def declare_exchange(call: Call, record: ExchangeRecord) -> None:
    vhost = call.vhost
    require_known_type(record.type)
    require_not_default(record.name)
    _require(call, "exchange", record.name, "configure")
    if record.name not in vhost.exchanges:
        alternate = alternate_exchange_of(record)
        if alternate is not None:
            _require(call, "exchange", record.name, "read")
            _require(call, "exchange", alternate, "write")
    await vhost.declare_exchange(record)


async def delete_exchange(call: Call, name: str, if_unused: bool) -> None:
    require_not_default(name)
    _require(call, "exchange", name, "configure")
    await call.vhost.delete_exchange(name, if_unused)


async def declare_queue(call: Call, record: QueueRecord) -> None:
    vhost = call.vhost
    record = vhost.named(vhost.typed(record))
    _require(call, "queue", record.name, "configure")
    if record.name not in vhost.queues:
        dead_letter_exchange = dead_letter_exchange_of(record)
        if dead_letter_exchange is not None:
            _require(call, "queue", record.name, "read")
            _require(call, "exchange", dead_letter_exchange, "write")
    await call.node.messages.open(vhost.name)
    queue = await vhost.declare_named_queue(record)
    await answer_of(queue.counts())  # its master is there, and knows that the queue is used


async def delete_queue(call: Call, name: str, if_unused: bool, if_empty: bool) -> None:
    _require(call, "queue", name, "configure")
    await call.vhost.delete_queue(name, if_unused, if_empty, NO_CONNECTION)


async def declare_super_stream(call: Call, wish: SuperStreamWish) -> None:
    """Declare all of a super stream, for a caller who might declare and bind each part of it."""
    vhost = call.vhost
    require_not_default(wish.name)
    for access in _ON_EXCHANGE:
        _require(call, "exchange", wish.name, access)
    for partition in wish.partitions:
        for access in _ON_PARTITION:
            _require(call, "queue", partition.stream, access)
    await call.node.messages.open(vhost.name)
    await vhost.super_streams.declare(wish)
    for partition in wish.partitions:  # their masters are there
        await answer_of(vhost.lookup_queue(partition.stream, NO_CONNECTION).counts())


async def delete_super_stream(call: Call, name: str) -> None:
    operations = call.vhost.super_streams
    require_not_default(name)
    _require(call, "exchange", name, "configure")
    for partition in operations.partitions(name):
        _require(call, "queue", partition.stream, "configure")
    await operations.delete(name)


def require_readable(call: Call, name: str) -> None:
    """A queue, wherever it is."""
    _require(call, "queue", name, "read")


def is_readable(call: Call, queue: str) -> bool:
    """True if the caller may read the queue."""
    try:
        require_readable(call, queue)
    except AmqpError:
        return False
    return True


def require_configure(call: Call, queue: str) -> None:
    """Raise AmqpError unless the caller may configure the queue."""
    _require(call, "queue", queue, "configure")


def readable_queue(call: Call, name: str) -> Queue:
    """To purge it, or to get from it."""
    require_readable(call, name)
    queue = call.vhost.lookup_queue(name, NO_CONNECTION)
    if not isinstance(queue, Queue):
        raise BetweenMasters(queue.record)
    return queue


async def bind(call: Call, binding: BindingRecord) -> None:
    _require_binding(call, binding)
    await call.vhost.bind(binding, NO_CONNECTION)


async def unbind(call: Call, binding: BindingRecord) -> None:
    _require_binding(call, binding)
    await call.vhost.unbind(binding, NO_CONNECTION)


def _require_binding(call: Call, binding: BindingRecord) -> None:
    destination = binding.destination
    require_not_default(binding.source)
    if destination.kind is DestinationKind.EXCHANGE:
        require_not_default(destination.name)
    _require(call, destination.kind.value, destination.name, "write")
    _require(call, "exchange", binding.source, "read")
    exchange = call.vhost.exchanges.get(binding.source)
    if exchange is not None and exchange.record.type == "topic":
        call.broker.access.require_topic(
            call.user, binding.vhost, binding.source, "read", binding.routing_key
        )


def _require(call: Call, kind: ResourceKind, name: str, access: Access) -> None:
    call.broker.access.require(call.user, call.vhost.name, kind, name, access)
