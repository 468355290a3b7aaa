"""/api/bindings: what leads from exchanges to queues and to other exchanges.

Every queue is bound to the default exchange by its name. These bindings are not kept anywhere, but
lists show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Final
from urllib.parse import quote_plus

from starlette.responses import Response

from warren.broker.vhost import VirtualHost
from warren.management.arguments import table_from_json
from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.declaring import bind, unbind
from warren.management.errors import no_such_object
from warren.management.json_types import Json, JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.bindings import properties_key, show_binding
from warren.model.records import BindingRecord, Destination, DestinationKind
from warren.routing.bindings import normalised

_DEFAULT: Final = ""
_KINDS: Final = {"q": DestinationKind.QUEUE, "e": DestinationKind.EXCHANGE}
_KEYS: Final[dict[str, Callable[[BindingRecord], Json]]] = {
    "vhost": attrgetter("vhost"),
    "source": attrgetter("source"),
    "destination": attrgetter("destination.name"),
    "destination_type": attrgetter("destination.kind.value"),
    "routing_key": attrgetter("routing_key"),
    "properties_key": properties_key,
}


def implicit_binding(vhost: str, queue: str) -> BindingRecord:
    return BindingRecord(vhost, _DEFAULT, Destination(DestinationKind.QUEUE, queue), queue)


def _all_of(vhost: VirtualHost) -> Iterator[BindingRecord]:
    return chain(
        (implicit_binding(vhost.name, name) for name in vhost.queues), vhost.bindings.all()
    )


def _to(vhost: VirtualHost, destination: Destination) -> Iterator[BindingRecord]:
    if destination.kind is DestinationKind.QUEUE and destination.name in vhost.queues:
        yield implicit_binding(vhost.name, destination.name)
    yield from vhost.bindings.of_destination(destination)


def _destination(call: Call) -> Destination:
    kind = _KINDS.get(call.parts["kind"])
    if kind is None:
        raise no_such_object()
    if kind is DestinationKind.EXCHANGE:
        return Destination(kind, call.exchange_name("destination"))
    return Destination(kind, call.parts["destination"])


def _between(call: Call) -> list[BindingRecord]:
    vhost = call.find_vhost()
    if vhost is None:
        return []
    source, destination = call.exchange_name("source"), _destination(call)
    return [binding for binding in _to(vhost, destination) if binding.source == source]


def _find(call: Call) -> BindingRecord | None:
    wanted = call.parts["properties_key"]
    for binding in _between(call):
        # The path was decoded, and the key in it may have been encoded twice.
        key = properties_key(binding)
        if wanted in (key, binding.routing_key if not len(binding.arguments) else key):
            return binding
    return None


def _listing(bindings: Iterable[BindingRecord]) -> Listing[BindingRecord]:
    return Listing(
        list(bindings),
        show_binding,
        attrgetter("vhost", "source", "destination.name", "routing_key"),
        _KEYS,
        is_paged=False,
    )


async def _list(call: Call) -> Response:
    every = [binding for vhost in visible_vhosts(call) for binding in _all_of(vhost)]
    return await _listing(every).respond(call)


async def _list_of_queue(call: Call) -> Response:
    destination = Destination(DestinationKind.QUEUE, call.parts["queue"])
    return await _listing(_to(call.vhost, destination)).respond(call)


async def _list_from_exchange(call: Call) -> Response:
    vhost, name = call.vhost, call.exchange_name()
    if name == _DEFAULT:
        implicit = (implicit_binding(vhost.name, queue) for queue in vhost.queues)
        return await _listing(implicit).respond(call)
    return await _listing(vhost.bindings.of_source(name)).respond(call)


async def _list_to_exchange(call: Call) -> Response:
    destination = Destination(DestinationKind.EXCHANGE, call.exchange_name())
    return await _listing(_to(call.vhost, destination)).respond(call)


async def _list_between(call: Call) -> Response:
    return await _listing(_between(call)).respond(call)


async def _post(call: Call) -> Response:
    vhost, body = call.vhost, await call.body()
    binding = normalised(
        BindingRecord(
            vhost.name,
            call.exchange_name("source"),
            _destination(call),
            body.text("routing_key", ""),
            table_from_json(body.object("arguments")),
        )
    )
    await bind(call, binding)
    # Relative to the address that was posted to, as RabbitMQ gives it.
    here, key = quote_plus(call.parts["destination"]), quote_plus(properties_key(binding))
    return Response(b"", 201, {"location": f"{here}/{key}"})


async def _show(call: Call) -> JsonObject:
    binding = _find(call)
    if binding is None:
        raise no_such_object()
    return show_binding(binding)


async def _delete(call: Call) -> None:
    binding = _find(call)
    if binding is None:
        raise no_such_object()
    await unbind(call, binding)


def _vhost_exists(call: Call) -> bool:
    return call.find_vhost() is not None


_BETWEEN: Final = "/bindings/{vhost}/e/{source}/{kind}/{destination}"

RESOURCES: Final = (
    Resource(path="/bindings", rule=VHOST_USERS, get=_list),
    Resource(path="/bindings/{vhost}", rule=VHOST_USERS, exists=_vhost_exists, get=_list),
    Resource(path=_BETWEEN, rule=VHOST_USERS, get=_list_between, post=_post),
    Resource(
        path=_BETWEEN + "/{properties_key}",
        rule=VHOST_USERS,
        exists=lambda call: _find(call) is not None,
        get=_show,
        delete=_delete,
    ),
    Resource(
        path="/queues/{vhost}/{queue}/bindings",
        rule=VHOST_USERS,
        exists=_vhost_exists,
        get=_list_of_queue,
    ),
    Resource(
        path="/exchanges/{vhost}/{exchange}/bindings/source",
        rule=VHOST_USERS,
        exists=_vhost_exists,
        get=_list_from_exchange,
    ),
    Resource(
        path="/exchanges/{vhost}/{exchange}/bindings/destination",
        rule=VHOST_USERS,
        exists=_vhost_exists,
        get=_list_to_exchange,
    ),
)
